"""Site names: what they resolve to, and what a wrong one is answered with."""

import pytest
from torch import nn

from transect.errors import SiteError
from transect.sites import find_structure, resolve_sites, site_names
from transect.testing.tiny import FAMILIES, tiny

LLAMA = tiny("llama").structure


def names(sites, structure=LLAMA):
    return [place.name for place in resolve_sites(structure, sites)]


@pytest.mark.parametrize(
    ("given", "name", "module", "end"),
    [
        ("layers[1]", "layers[1]", "model.layers.1", "output"),
        ("layers[-1]", "layers[2]", "model.layers.2", "output"),
        ("layers[-3].in", "layers[0].in", "model.layers.0", "input"),
        (" layers[ 1 ] ", "layers[1]", "model.layers.1", "output"),
        ("layers[1].attn.out", "layers[1].attn.out", "model.layers.1.self_attn", "output"),
        ("layers[1].attn.heads", "layers[1].attn.heads", "model.layers.1.self_attn.o_proj", "input"),
        ("layers[1].mlp.out", "layers[1].mlp.out", "model.layers.1.mlp", "output"),
        ("layers[1].mlp.act", "layers[1].mlp.act", "model.layers.1.mlp.down_proj", "input"),
        ("layers[1].self_attn.q_proj", "layers[1].self_attn.q_proj", "model.layers.1.self_attn.q_proj", "output"),
        ("embed", "embed", "model.embed_tokens", "output"),
        ("final_norm", "final_norm", "model.norm", "output"),
        ("model.layers.1.mlp.up_proj", "model.layers.1.mlp.up_proj", "model.layers.1.mlp.up_proj", "output"),
        ("lm_head", "lm_head", "lm_head", "output"),
        # One place has one name, whichever way it was asked for.
        ("model.layers.1", "layers[1]", "model.layers.1", "output"),
        ("model.norm", "final_norm", "model.norm", "output"),
        ("layers[1].self_attn", "layers[1].attn.out", "model.layers.1.self_attn", "output"),
        # TransformerLens
        ("blocks.1.hook_resid_post", "layers[1]", "model.layers.1", "output"),
        ("blocks.1.hook_resid_pre", "layers[1].in", "model.layers.1", "input"),
        ("blocks.1.hook_attn_out", "layers[1].attn.out", "model.layers.1.self_attn", "output"),
        ("blocks.1.hook_mlp_out", "layers[1].mlp.out", "model.layers.1.mlp", "output"),
        ("blocks.1.attn.hook_z", "layers[1].attn.heads", "model.layers.1.self_attn.o_proj", "input"),
        ("blocks.1.mlp.hook_post", "layers[1].mlp.act", "model.layers.1.mlp.down_proj", "input"),
        ("hook_embed", "embed", "model.embed_tokens", "output"),
        ("ln_final.hook_normalized", "final_norm", "model.norm", "output"),
    ],
)
def test_one_place(given, name, module, end):
    (place,) = resolve_sites(LLAMA, given)
    assert (place.name, place.module, place.end) == (name, module, end)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("layers[*]", ["layers[0]", "layers[1]", "layers[2]"]),
        ("layers[:]", ["layers[0]", "layers[1]", "layers[2]"]),
        ("layers[1:]", ["layers[1]", "layers[2]"]),
        ("layers[0:2]", ["layers[0]", "layers[1]"]),
        ("layers[::2]", ["layers[0]", "layers[2]"]),
        ("layers[-2:]", ["layers[1]", "layers[2]"]),
        ("layers[*].mlp.out", ["layers[0].mlp.out", "layers[1].mlp.out", "layers[2].mlp.out"]),
        ("layers[1:].self_attn.v_proj", ["layers[1].self_attn.v_proj", "layers[2].self_attn.v_proj"]),
        ("blocks.*.hook_resid_post", ["layers[0]", "layers[1]", "layers[2]"]),
        (["layers[2]", "layers[*]", "layers[-1]", "final_norm"], ["layers[2]", "layers[0]", "layers[1]", "final_norm"]),
    ],
)
def test_many_places_each_once_in_the_order_given(given, expected):
    assert names(given) == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("layers[3]", "has 3 blocks, layers[0] to layers[2]"),
        ("layers[-4]", "has 3 blocks"),
        ("layers[1:9]", "reaches outside"),
        ("layers[2:1]", "is empty"),
        ("layers[::0]", "reaches outside"),
        ("layers[]", "in the brackets"),
        ("layers[a]", "in the brackets"),
        ("layers[1.5]", "in the brackets"),
        ("layers[1].mlp.outt", "has no 'mlp.outt'. It has: in, attn.out, attn.heads, mlp.out, mlp.act"),
        ("layers[1].nonsense", "LlamaDecoderLayer"),
        ("layer[1]", "did you mean 'layers[1]'"),
        ("layers.1", "unknown site 'layers.1'"),
        ("model.layrs.1", "did you mean 'model.layers.1'"),
        ("blocks.1.hook_resid_mid", "unknown site"),
        ("blocks.7.hook_resid_post", "site 'blocks.7.hook_resid_post': this model has 3 blocks"),
        ("final-norm", "did you mean 'final_norm'"),
        ("", "unknown site ''"),
        ([], "expected at least one site"),
        ([3], "for example 'layers[3]'"),
    ],
)
def test_a_wrong_name_is_answered_with_what_there_is(given, says):
    with pytest.raises(SiteError) as caught:
        resolve_sites(LLAMA, given)
    assert says in str(caught.value)


def test_a_part_that_some_blocks_lack_names_the_blocks_that_have_it(draws):
    blocks = [nn.ModuleDict({"attn": nn.Linear(4, 4)}), nn.ModuleDict({"attn": nn.Linear(4, 4), "mlp": nn.Linear(4, 4)})]
    structure = find_structure(nn.ModuleDict({"layers": nn.ModuleList(blocks)}))
    assert names("layers[1].mlp.out", structure) == ["layers[1].mlp.out"]
    with pytest.raises(SiteError, match=r"block 0 .*has no 'mlp.out'.*Blocks that have it: layers\[1\]"):
        resolve_sites(structure, "layers[*].mlp.out")


def test_missing_ends_and_missing_blocks_are_named(draws):
    with pytest.raises(SiteError, match="no norm after its last block"):
        resolve_sites(tiny("bert").structure, "final_norm")
    with pytest.raises(SiteError, match="no embedding"):
        resolve_sites(tiny("mlp").structure, "embed")
    with pytest.raises(SiteError, match=r"no single list of blocks.*dotted module path"):
        resolve_sites(find_structure(nn.Sequential(nn.Linear(2, 3), nn.ReLU())), "layers[0]")
    with pytest.raises(SiteError, match=r"has no 'mlp.act'. It has: in, attn.out, attn.heads"):
        resolve_sites(tiny("mamba").structure, "layers[0].mlp.act")


def test_plain_modules_have_their_dotted_paths(draws):
    structure = find_structure(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    assert names(["1", "0"], structure) == ["1", "0"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_name_of_every_family_resolves_to_itself(family):
    model = tiny(family)
    listed = site_names(model.structure)
    assert names(list(listed), model.structure) == list(listed)
    assert set(model.sites()) <= set(listed)


@pytest.mark.parametrize("family", FAMILIES)
def test_resolving_twice_is_resolving_once_and_every_path_is_a_module(family):
    structure = tiny(family).structure
    paths = [path for path in structure.modules if path]
    places = resolve_sites(structure, paths)
    assert len({(place.module, place.end) for place in places}) == len(places) == len(set(paths))
    assert resolve_sites(structure, [place.name for place in places]) == places
