"""Labelled text: reading it, built-in sets, splits by group, and the leakage audit.

Nothing here touches a model. A `Table` is checked when it is made; groups keep related rows on one side of every split;
the audit says how far the labels could be guessed without understanding anything.
"""

from transect.data.builtin import builtin_names
from transect.data.findings import Finding, Leakage
from transect.data.folder import read_tables
from transect.data.grouping import Grouping, effective_groups
from transect.data.kept import load_table, save_table
from transect.data.leakage import audit
from transect.data.pairs import read_pairs
from transect.data.parts import Split, split_table
from transect.data.read import read_table
from transect.data.rewriting import Rewriting, Rewritten, rewrite_table, shift_rewritings, style_rewritings
from transect.data.sae_probes import read_sae_probes
from transect.data.splits import group_folds, split_by_group
from transect.data.table import Table, concat, require_two_classes

__all__ = [
    "Finding",
    "Grouping",
    "Leakage",
    "Rewriting",
    "Rewritten",
    "Split",
    "Table",
    "audit",
    "builtin_names",
    "concat",
    "effective_groups",
    "group_folds",
    "load_table",
    "read_pairs",
    "read_sae_probes",
    "read_table",
    "read_tables",
    "require_two_classes",
    "rewrite_table",
    "save_table",
    "shift_rewritings",
    "split_by_group",
    "split_table",
    "style_rewritings",
]
