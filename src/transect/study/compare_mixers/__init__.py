"""Sequence layers side by side on a small task: trained alike, tested within and beyond what they were trained on."""

from transect.study.compare_mixers.compare import compare_mixers
from transect.study.compare_mixers.records import Comparison, LayerResult, Run
from transect.study.compare_mixers.settings import CompareSettings, layer_spec, make_task
from transect.study.compare_mixers.written import write_comparison

__all__ = ["CompareSettings", "Comparison", "LayerResult", "Run", "compare_mixers", "layer_spec", "make_task", "write_comparison"]
