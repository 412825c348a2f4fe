"""Frozen result records, and what is made of them: JSON, a page that opens offline, pictures, a few lines in a terminal."""

from transect.report.codec import from_json, to_json
from transect.report.html import render_html
from transect.report.records import (
    Baseline,
    CaptureInfo,
    DataInfo,
    Environment,
    Histogram,
    MetricInfo,
    ModelInfo,
    ProbeScore,
    Scores,
    Selected,
    SiteScore,
    SplitInfo,
    TableInfo,
    Timing,
    TransferScore,
    VerifyInfo,
    WrongText,
    score,
)
from transect.report.report import Report, load_report
from transect.report.schema import report_schema
from transect.report.stress import NotTried, StressFinding, StressPoint, StressReport, load_stress
from transect.report.stress_page import print_stress, render_stress, write_stress
from transect.report.terminal import print_report
from transect.report.write import write_report

__all__ = [
    "Baseline",
    "CaptureInfo",
    "DataInfo",
    "Environment",
    "Histogram",
    "MetricInfo",
    "ModelInfo",
    "NotTried",
    "ProbeScore",
    "Report",
    "Scores",
    "Selected",
    "SiteScore",
    "SplitInfo",
    "StressFinding",
    "StressPoint",
    "StressReport",
    "TableInfo",
    "Timing",
    "TransferScore",
    "VerifyInfo",
    "WrongText",
    "from_json",
    "load_report",
    "load_stress",
    "print_report",
    "print_stress",
    "render_html",
    "render_stress",
    "report_schema",
    "score",
    "to_json",
    "write_report",
    "write_stress",
]
