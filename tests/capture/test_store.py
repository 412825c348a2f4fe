import errno
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from transect.capture import Activations, capture, is_store, store
from transect.capture.layout import JOURNAL, MANIFEST, ROWS
from transect.errors import MismatchError, StoreError
from transect.models import load
from transect.testing.tiny import tiny, tiny_tokenizer

SITES = ["layers[0]", "layers[2]", "final_norm"]
MAPS = Path("/proc/self/maps")
linux = pytest.mark.skipif(not MAPS.exists(), reason="reads Linux's list of mapped files")


@pytest.fixture(scope="module")
def llama():
    return tiny("llama")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "acts"


def run(model, texts, folder=None, **settings):
    return capture(model, texts, store=folder, **{"sites": SITES, "batch_tokens": 8, **settings})


def same_bits(left, right):
    assert left.sites == right.sites
    assert left.rows.equals(right.rows)
    for site in left.sites:
        assert left[site].dtype == right[site].dtype
        assert torch.equal(left[site], right[site])


def interrupt_after(model, passes):
    """A hook that presses Ctrl-C in this pass; the first pass only looks at a sample."""
    count = 0

    def press(*_):
        nonlocal count
        count += 1
        if count > passes:
            raise KeyboardInterrupt

    return model.module.model.norm.register_forward_hook(press)


def stop_half_way(model, texts, folder, passes=3):
    with interrupt_after(model, passes), pytest.raises(KeyboardInterrupt):
        run(model, texts, folder)


@pytest.mark.parametrize("tokens", ["last", "mean", "all"])
@pytest.mark.parametrize("dtype", [None, "bfloat16", "float16", "float64"])
def test_a_store_holds_what_memory_would(llama, texts, folder, tokens, dtype):
    memory = run(llama, texts, tokens=tokens, dtype=dtype)
    same_bits(run(llama, texts, folder, tokens=tokens, dtype=dtype), memory)
    same_bits(Activations.open(folder), memory)
    assert not list(folder.glob("*.part"))
    assert not (folder / JOURNAL).exists()


def test_other_tools_can_read_it(llama, texts, folder):
    acts = run(llama, texts, folder)
    shards = sorted(path.name for path in folder.glob("*.safetensors"))
    assert shards == ["000_layers[0].safetensors", "001_layers[2].safetensors", "002_final_norm.safetensors"]
    for site, shard in zip(SITES, shards, strict=True):
        assert torch.equal(load_file(folder / shard)[site], acts[site])
        with safe_open(folder / shard, framework="pt") as file:
            assert json.loads(file.metadata()["transect"])["axes"] == "n d"
    assert pq.read_table(folder / ROWS)["n_tokens"].to_pylist() == acts.rows["n_tokens"].to_pylist()
    manifest = json.loads((folder / MANIFEST).read_text())
    assert (manifest["format"], manifest["status"], manifest["axes"], manifest["n_rows"]) == (1, "complete", ["n", "d"], 7)
    assert manifest["identity"]["model"] == llama.fingerprint


def test_more_than_ten_sites_stay_in_order(folder):
    model, data = load(torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(12))), name="deep"), torch.randn(30, 4)
    acts = capture(model, data, sites="layers[*]", store=folder, batch_tokens=3)
    assert acts.sites == Activations.open(folder).sites == tuple(f"layers[{index}]" for index in range(12))
    with torch.no_grad():
        for index, layer in enumerate(model.module):
            data = layer(data)
            torch.testing.assert_close(acts[f"layers[{index}]"], data, rtol=0, atol=1e-6)


@linux
def test_tensors_are_mapped_and_private(llama, texts, folder):
    acts = run(llama, texts, folder)
    path = str(folder / "000_layers[0].safetensors")
    before = acts["layers[0]"].clone()
    assert path in MAPS.read_text()
    acts["layers[0]"].zero_()
    assert torch.equal(Activations.open(folder)["layers[0]"], before)


@linux
def test_nothing_is_mapped_before_it_is_asked_for(llama, texts, folder):
    run(llama, texts, folder)
    Activations.open(folder)
    assert str(folder) not in MAPS.read_text()


def test_a_complete_store_is_opened_and_nothing_runs(llama, texts, folder):
    first = run(llama, texts, folder)
    with interrupt_after(llama, 0):
        second = run(llama, texts, folder)
    same_bits(first, second)
    assert second.provenance == first.provenance
    report = run(llama, texts, folder, verify=3).provenance["verify"]
    assert report["n"] == 3
    assert report["largest_difference"] < 1e-5


@pytest.mark.parametrize("passes", [0, 1, 2, 4])
def test_ctrl_c_keeps_what_was_done_and_goes_on_to_the_same_bits(llama, texts, folder, passes):
    stop_half_way(llama, texts, folder, passes)
    if passes:
        with pytest.raises(StoreError, match="unfinished"):
            Activations.open(folder)
        assert len((folder / JOURNAL).read_text().splitlines()) == passes - 1
    resumed = run(llama, texts, folder)
    assert resumed.provenance["conditions"]["found"] == max(passes - 1, 0)
    same_bits(resumed, run(llama, texts))


def test_a_journal_line_cut_short_is_no_entry(llama, texts, folder):
    stop_half_way(llama, texts, folder, 4)
    journal = folder / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-3])
    resumed = run(llama, texts, folder)
    assert resumed.provenance["conditions"]["found"] == 2
    same_bits(resumed, run(llama, texts))


def test_rows_that_never_reached_the_disk_are_run_again(llama, texts, folder):
    # As after a power failure: the journal is there, some of the numbers are not.
    stop_half_way(llama, texts, folder, 4)
    part = folder / "001_layers[2].safetensors.part"
    data = bytearray(part.read_bytes())
    data[-7 * 64 :] = bytes(7 * 64)
    part.write_bytes(data)
    resumed = run(llama, texts, folder)
    assert resumed.provenance["conditions"]["found"] == 0
    same_bits(resumed, run(llama, texts))


@pytest.mark.parametrize("lost", ["part", "rows", "journal", "all but the manifest"])
def test_lost_files_of_an_unfinished_store_are_made_again(llama, texts, folder, lost):
    stop_half_way(llama, texts, folder, 4)
    keep = {"all but the manifest": [MANIFEST]}.get(lost, [])
    for path in folder.iterdir():
        named = {"part": path.name.startswith("000") and path.suffix == ".part", "rows": path.name == ROWS, "journal": path.name == JOURNAL}
        if named.get(lost) or (keep and path.name not in keep):
            path.unlink()
    same_bits(run(llama, texts, folder), run(llama, texts))


def test_a_kill_between_the_last_steps_is_mended(llama, texts, folder):
    expected = run(llama, texts, folder)
    kept = {site: expected[site].clone() for site in SITES}
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "status": "unfinished"}))
    (folder / "000_layers[0].safetensors").rename(folder / "000_layers[0].safetensors.part")
    (folder / ".manifest.json.abc.tmp").write_text("half")
    resumed = run(llama, texts, folder)
    for site in SITES:
        assert torch.equal(resumed[site], kept[site])
    assert not [path for path in folder.iterdir() if path.suffix in (".tmp", ".part")]


SCRIPT = """
import signal, sys, time, torch
from transect.capture import capture
from transect.models import load

# Whatever starts the tests in the background may have ours ignore Ctrl-C, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)
torch.manual_seed(0)
module = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3)))
data = torch.randn(200, 8)
module[2].register_forward_hook(lambda *_: time.sleep(0.02))
capture(load(module, name="mlp"), data, sites="layers[*]", batch_tokens=2, store=sys.argv[1])
"""


def mlp_and_data():
    torch.manual_seed(0)
    module = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3)))
    return load(module, name="mlp"), torch.randn(200, 8)


def test_killed_at_any_moment_it_goes_on_to_the_same_bits(folder):
    for end in (signal.SIGKILL, signal.SIGINT):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder)], stderr=subprocess.PIPE, text=True)
        journal, begun = folder / JOURNAL, time.monotonic()
        size = journal.stat().st_size if journal.exists() else 0
        while process.poll() is None and time.monotonic() - begun < 60:
            if journal.exists() and journal.stat().st_size > size + 30:
                break
            time.sleep(0.005)
        time.sleep(random.Random(end).random() * 0.1)
        process.send_signal(end)
        message = process.communicate()[1]
        assert process.returncode == -end or "KeyboardInterrupt" in message, message
        assert json.loads((folder / MANIFEST).read_text())["status"] == "unfinished"
    model, data = mlp_and_data()
    resumed = capture(model, data, sites="layers[*]", batch_tokens=2, store=folder)
    assert 2 <= resumed.provenance["conditions"]["found"] < 100
    same_bits(resumed, capture(model, data, sites="layers[*]", batch_tokens=2))


def change(name, model, texts):
    """Another capture, one thing changed."""
    settings = {
        "model": (tiny("llama", seed=1), texts, {}),
        "data": (model, [*texts[:-1], "Other"], {}),
        "rows": (model, texts[:-1], {}),
        "sites": (model, texts, {"sites": SITES[:2]}),
        "tokens": (model, texts, {"tokens": "mean"}),
        "dtype": (model, texts, {"dtype": "float16"}),
    }
    return settings[name]


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("name", ["model", "data", "rows", "sites", "tokens", "dtype"])
def test_another_capture_is_refused_and_the_field_named(llama, texts, folder, name, complete):
    if complete:
        run(llama, texts, folder)
    else:
        stop_half_way(llama, texts, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    model, data, settings = change(name, llama, texts)
    with pytest.raises(MismatchError, match=f"differs in .*{name}: then .*, now "):
        run(model, data, folder, **settings)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_tokenizer_that_reads_otherwise_is_refused(llama, texts, folder):
    run(llama, texts, folder)
    tokenizer = tiny_tokenizer()
    tokenizer._tokenizer.post_processor = None
    without_bos = load(llama.module, tokenizer=tokenizer, name="tiny-llama")
    with pytest.raises(MismatchError, match=r"model|inputs"):
        run(without_bos, texts, folder)


def test_other_batches_would_give_other_bits_so_they_do_not_go_on(llama, texts, folder):
    stop_half_way(llama, texts, folder)
    with pytest.raises(MismatchError, match=r"unfinished.*batch_tokens: then 8, now 48"):
        run(llama, texts, folder, batch_tokens=48)
    run(llama, texts, folder)
    run(llama, texts, folder, batch_tokens=48)  # complete: nothing has to run, so it does not matter


def test_resume_off_refuses_what_is_there(llama, texts, folder):
    run(llama, texts, folder, resume=False)
    with pytest.raises(StoreError, match="resume"):
        run(llama, texts, folder, resume=False)


def test_a_folder_or_file_of_somebody_else_is_left_alone(llama, texts, folder, tmp_path):
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match=r"thesis\.tex"):
        run(llama, texts, folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]
    with pytest.raises(StoreError, match="is a file"):
        run(llama, texts, folder / "thesis.tex")
    (tmp_path / "empty").mkdir()
    assert len(run(llama, texts, tmp_path / "empty")) == 7


def test_is_store(llama, texts, folder, tmp_path):
    run(llama, texts, folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("")
    assert is_store(folder)
    assert not any(map(is_store, (tmp_path / "other", tmp_path / "nowhere", folder / MANIFEST)))


@pytest.mark.parametrize("how", ["cut short", "gone", "one bit", "header"])
def test_a_damaged_shard_is_named(llama, texts, folder, how):
    run(llama, texts, folder)
    path = folder / "001_layers[2].safetensors"
    data = bytearray(path.read_bytes())
    if how == "one bit":
        data[-1] ^= 1
    if how == "header":
        data[:4] = b"\xff" * 4
    path.unlink()
    if how != "gone":
        path.write_bytes(data[:-5] if how == "cut short" else data)
    with pytest.raises(StoreError, match=r"001_layers\[2\].safetensors is damaged"):
        Activations.open(folder)["layers[2]"]
    if how == "one bit":
        Activations.open(folder)["layers[0]"]
        Activations.open(folder, check=False)["layers[2]"]


@pytest.mark.parametrize("name", [ROWS, MANIFEST])
def test_a_damaged_table_or_manifest_is_named(llama, texts, folder, name):
    run(llama, texts, folder)
    (folder / name).write_bytes(b"{")
    with pytest.raises(StoreError, match=f"{name} is damaged"):
        Activations.open(folder)


def test_no_store_and_a_newer_store(llama, texts, folder):
    with pytest.raises(StoreError, match="there is no store"):
        Activations.open(folder)
    run(llama, texts, folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "format": 2}))
    with pytest.raises(StoreError, match="format 2, this transect reads 1"):
        Activations.open(folder)


def test_a_full_disk_is_an_error_and_the_store_goes_on_later(llama, texts, folder, monkeypatch):
    written, room, write_all = 0, 1000, store._write_all

    def nearly_full(file, data):
        nonlocal written
        written += len(data)
        if written > room:
            write_all(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        write_all(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(store, "_write_all", nearly_full)
        with pytest.raises(StoreError, match=r"No space left on device.*goes on from there"):
            run(llama, texts, folder)
    resumed = run(llama, texts, folder)
    assert resumed.provenance["conditions"]["found"] > 0
    same_bits(resumed, run(llama, texts))


def test_too_little_room_is_said_before_anything_runs(llama, texts, folder, monkeypatch):
    usage = store.shutil.disk_usage(folder.parent)
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: usage._replace(free=100))
    with pytest.raises(StoreError, match=r"needs 0\.0 MB more, but the disk has 0\.0 MB free"):
        run(llama, texts, folder)


def test_writes_that_stop_half_way_are_finished():
    class Slow:
        def __init__(self):
            self.got = b""

        def write(self, data):
            self.got += bytes(data[:3])
            return len(data[:3])

    file = Slow()
    store._write_all(file, memoryview(b"0123456789"))
    assert file.got == b"0123456789"


def test_two_processes_do_not_write_one_store(llama, texts, folder):
    def nested(*_):
        with pytest.raises(StoreError, match="another process"):
            run(tiny("llama"), texts, folder)
        seen.append(1)
        handle.remove()

    seen = []
    handle = llama.module.model.norm.register_forward_hook(lambda *_: seen.append(0) if not seen else nested())
    run(llama, texts, folder)
    assert seen[:2] == [0, 1]
