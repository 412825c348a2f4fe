"""Frozen result records, and what is made of them: JSON, a page that opens offline, pictures, a few lines in a terminal."""

from transect.report.codec import from_json, to_json
from transect.report.html import render_html
from transect.report.records import (
    SCHEMA,
    Baseline,
    CaptureInfo,
    DataInfo,
    Environment,
    Histogram,
    Metric,
    ModelInfo,
    ProbeScore,
    Report,
    Rule,
    Scores,
    Selected,
    SiteScore,
    SplitInfo,
    TableInfo,
    Timing,
    Transfer,
    Verdict,
    VerifyInfo,
    WrongText,
    load_report,
    score,
)
from transect.report.schema import report_schema
from transect.report.terminal import TerminalReport
from transect.report.write import write_report

__all__ = [
    "SCHEMA",
    "Baseline",
    "CaptureInfo",
    "DataInfo",
    "Environment",
    "Histogram",
    "Metric",
    "ModelInfo",
    "ProbeScore",
    "Report",
    "Rule",
    "Scores",
    "Selected",
    "SiteScore",
    "SplitInfo",
    "TableInfo",
    "TerminalReport",
    "Timing",
    "Transfer",
    "Verdict",
    "VerifyInfo",
    "WrongText",
    "from_json",
    "load_report",
    "render_html",
    "report_schema",
    "score",
    "to_json",
    "write_report",
]
