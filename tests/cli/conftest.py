"""A tiny model and tables on disk, as a user has them."""

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from transect.data import read_table
from transect.testing import tiny


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "my-model"
    model = tiny("llama")
    model.module.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def tables(in_tmp):
    """train.csv and ood.parquet in the working directory, with the columns of the README's example."""
    cities, elements = read_table("cities"), read_table("elements")
    with Path("train.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["statement", "is_true", "city"])
        writer.writerows(zip(cities.texts[:160], cities.labels[:160].tolist(), cities.groups[:160], strict=True))
    columns = {"statement": list(elements.texts[:80]), "is_true": elements.labels[:80].tolist()}
    pq.write_table(pa.table(columns), "ood.parquet")
    return in_tmp
