"""WHERE in a model: names of places and of token positions, resolved on any module by its structure."""

from transect.sites.grammar import Place, resolve_sites, site_names
from transect.sites.parts import Block
from transect.sites.structure import Structure, find_structure
from transect.sites.tokens import TokenRule, parse_tokens

__all__ = ["Block", "Place", "Structure", "TokenRule", "find_structure", "parse_tokens", "resolve_sites", "site_names"]
