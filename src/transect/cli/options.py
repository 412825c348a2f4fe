"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ModelSource = Annotated[str, typer.Option("--model", help="A hub id, a folder, a .gguf file, or 'demo' (Gemma 3 270M).")]
Device = Annotated[str, typer.Option(help="Where to run: auto, cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[str | None, typer.Option(help="Run the model in this type (float32, bfloat16, float16); default: as stored.")]
Text = Annotated[str | None, typer.Option(help="The column that holds the text.")]
Label = Annotated[str | None, typer.Option(help="The column that holds the label.")]
Group = Annotated[str | None, typer.Option(help="The column whose equal values must stay on one side of a split.")]
Span = Annotated[str | None, typer.Option(help="A column with a substring of the text, or start:end, for --tokens span:COLUMN.")]
Messages = Annotated[str | None, typer.Option(help="The column that holds chat messages instead of text.")]
Tokens = Annotated[str, typer.Option(help="Which token is read: last, first, mean, max, an index, a slice, span:COLUMN, prompt[-1].")]
Chat = Annotated[bool, typer.Option("--chat", help="Wrap each text in the tokenizer's chat template, as one user turn.")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut texts longer than the model's context instead of refusing them.")]
Verify = Annotated[int, typer.Option(help="Capture this many texts again, one at a time, and report the largest difference.", min=0)]
Folder = Annotated[Path | None, typer.Option(help="The folder to write.")]
