"""Structure by shape: every family through the same resolver, and modules no family prepared it for."""

import pytest
import torch
from torch import nn

from transect.sites import find_structure
from transect.testing.tiny import FAMILIES, tiny

pytestmark = pytest.mark.usefixtures("draws")

# family: (first block, how many, embed, final norm, backbone, causal)
EXPECTED = {
    "llama": ("model.layers.0", 3, "model.embed_tokens", "model.norm", "model", True),
    "gpt2": ("transformer.h.0", 3, "transformer.wte", "transformer.ln_f", "transformer", True),
    "gemma3": ("model.layers.0", 4, "model.embed_tokens", "model.norm", "model", True),
    "qwen3": ("model.layers.0", 3, "model.embed_tokens", "model.norm", "model", True),
    "qwen3_next": ("model.layers.0", 4, "model.embed_tokens", "model.norm", "model", True),
    "mamba": ("backbone.layers.0", 3, "backbone.embeddings", "backbone.norm_f", "backbone", True),
    "mamba2": ("backbone.layers.0", 3, "backbone.embeddings", "backbone.norm_f", "backbone", True),
    "rwkv": ("rwkv.blocks.0", 3, "rwkv.embeddings", "rwkv.ln_out", "rwkv", True),
    "bert": ("encoder.layer.0", 3, "embeddings", None, "", False),
    "vit": ("layers.0", 3, "embeddings", "layernorm", "", False),
    "gru": ("layers.0", 2, None, None, "", True),
    "mlp": ("layers.0", 3, None, None, "", False),
}
# family: (attention's projection, MLP, MLP's projection) of block 0, relative to the block
PARTS = {
    "llama": ("self_attn", "self_attn.o_proj", "mlp", "mlp.down_proj"),
    "gpt2": ("attn", "attn.c_proj", "mlp", "mlp.c_proj"),
    "gemma3": ("self_attn", "self_attn.o_proj", "mlp", "mlp.down_proj"),
    "qwen3": ("self_attn", "self_attn.o_proj", "mlp", "mlp.down_proj"),
    "qwen3_next": ("linear_attn", "linear_attn.out_proj", "mlp", None),
    "mamba": ("mixer", "mixer.out_proj", None, None),
    "mamba2": ("mixer", "mixer.out_proj", None, None),
    "rwkv": ("attention", "attention.output", "feed_forward", "feed_forward.value"),
    "bert": ("attention.output.dense", "attention.output.dense", "output.dense", "output.dense"),
    "vit": ("attention", "attention.o_proj", "mlp", "mlp.fc2"),
    "gru": (None, None, None, None),
    "mlp": (None, None, None, None),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_resolves(family):
    structure = tiny(family).structure
    found = (structure.blocks[0], len(structure.blocks), structure.embed, structure.final_norm, structure.backbone, structure.causal)
    assert found == EXPECTED[family]
    assert structure.width == 16


@pytest.mark.parametrize("family", FAMILIES)
def test_parts_of_the_first_block(family):
    block = tiny(family).structure.parts[0]
    paths = (block.attn, block.attn_projection, block.mlp, block.mlp_projection)
    assert tuple(path and path.removeprefix(f"{block.path}.") for path in paths) == PARTS[family]


def test_a_hybrid_model_has_a_mixer_in_every_block():
    parts = tiny("qwen3_next").structure.parts
    assert [part.attn.rpartition(".")[2] for part in parts] == ["linear_attn"] * 3 + ["self_attn"]
    assert all(part.attn_projection for part in parts)


def test_the_attention_part_returns_what_its_projection_computes():
    """For BERT, whose attention module adds and normalises itself, the part must still be the bare result."""
    for family in ("llama", "gpt2", "bert", "vit", "mamba"):
        model = tiny(family)
        block = model.structure.parts[1]
        part, projection = (model.module.get_submodule(path) for path in (block.attn, block.attn_projection))
        kept = {}

        def keep(name, store):
            return lambda _module, _args, output: store.__setitem__(name, output[0] if isinstance(output, tuple) else output)

        handles = [part.register_forward_hook(keep("part", kept)), projection.register_forward_hook(keep("projection", kept))]
        inputs = {"pixel_values": torch.ones(1, 3, 8, 8)} if family == "vit" else {"input_ids": torch.tensor([[1, 9, 40, 77]])}
        with torch.no_grad():
            model.module(**inputs)
        for handle in handles:
            handle.remove()
        assert torch.equal(kept["part"], kept["projection"]), family


def _tiny_config(name, **settings):
    import transformers

    sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return getattr(transformers, name)(**sizes | settings)


def test_an_mlp_without_a_module_of_its_own():
    import transformers

    opt = find_structure(transformers.OPTForCausalLM(_tiny_config("OPTConfig", ffn_dim=32, word_embed_proj_dim=16)))
    assert opt.final_norm == "model.decoder.final_layer_norm"  # defined before the blocks
    assert (opt.parts[0].mlp, opt.parts[0].mlp_projection) == ("model.decoder.layers.0.fc2",) * 2


def test_routed_experts_have_no_single_activation():
    import transformers

    mixtral = find_structure(transformers.MixtralForCausalLM(_tiny_config("MixtralConfig", num_local_experts=8, num_key_value_heads=1)))
    assert len(mixtral.blocks) == 2  # and not the eight experts
    assert mixtral.parts[0].mlp == "model.layers.0.mlp"
    assert mixtral.parts[0].mlp_projection is None


def test_a_model_with_two_towers_gives_its_language_blocks():
    import transformers

    vision = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 6,
        "num_attention_heads": 2,
        "image_size": 8,
        "patch_size": 4,
    }
    text = _tiny_config("Gemma3TextConfig", num_key_value_heads=1, head_dim=8).to_dict()
    config = transformers.Gemma3Config(text_config=text, vision_config={**vision, "image_size": 8, "patch_size": 4}, mm_tokens_per_image=4)
    found = find_structure(transformers.Gemma3ForConditionalGeneration(config))
    assert found.blocks == ("model.language_model.layers.0", "model.language_model.layers.1")  # not the six of the vision tower
    assert found.final_norm == "model.language_model.norm"


@pytest.mark.parametrize(
    ("kind", "config", "settings", "expected"),
    [
        # The family's name in a class (Qwen3MoeAttention) does not make attention an MLP.
        ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {"num_experts": 4}, ("self_attn", "self_attn.o_proj", "mlp", None)),
        # Attention one level deeper; and the norm in the language-model head is not the final norm.
        (
            "GPTNeoForCausalLM",
            "GPTNeoConfig",
            {"attention_types": [[["global"], 2]]},
            ("attn.attention.out_proj",) * 2 + ("mlp", "mlp.c_proj"),
        ),
        ("DistilBertForMaskedLM", "DistilBertConfig", {}, ("attention", "attention.out_lin", "ffn", "ffn.lin2")),
        # Its base_model_prefix names the wrapper that this class is not.
        ("Llama4ForCausalLM", "Llama4TextConfig", {"num_local_experts": 2}, ("self_attn", "self_attn.o_proj", "feed_forward", None)),
    ],
)
def test_families_with_surprises(kind, config, settings, expected):
    import transformers

    with torch.device("meta"):
        module = getattr(transformers, kind)(_tiny_config(config, **settings))
    found = find_structure(module)
    block = found.parts[1]
    paths = (block.attn, block.attn_projection, block.mlp, block.mlp_projection)
    assert tuple(path and path.removeprefix(f"{block.path}.") for path in paths) == expected
    assert len(found.blocks) == 2
    assert found.backbone == found.blocks[0].split(".")[0]
    assert found.final_norm is None or found.final_norm.startswith(f"{found.backbone}.")


def test_a_shared_block_inside_a_block_is_no_attention():
    shared = nn.ModuleDict({"self_attn": nn.Linear(4, 4), "feed_forward": nn.Linear(4, 4)})
    block = nn.ModuleDict({"shared_attention_block": shared, "mamba": nn.Linear(4, 4)})
    found = find_structure(nn.ModuleDict({"layers": nn.ModuleList([block])}))
    assert found.parts[0].attn == "layers.0.mamba"


def test_torch_own_encoder():
    found = find_structure(nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 3))
    assert found.blocks == ("layers.0", "layers.1", "layers.2")
    # torch's attention uses its projection's weights without calling the module, so there is nothing to listen to.
    assert (found.parts[0].attn, found.parts[0].attn_projection) == ("layers.0.self_attn", None)
    assert found.parts[0].mlp_projection == "layers.0.linear2"


class Stage(nn.Sequential):
    pass


class Stages(nn.Module):
    """A convolutional network: stages of the same block and of different widths."""

    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(*(Stage(nn.Conv2d(3, 3, 1), nn.ReLU()) for _ in range(2)))
        self.layer2 = nn.Sequential(*(Stage(nn.Conv2d(3, 3, 1), nn.ReLU()) for _ in range(4)))


class Wrapper(nn.Module):
    """As an adapter library wraps a model: passes attributes on, and puts the model one level down."""

    def __init__(self, model):
        super().__init__()
        self.base_model = model

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("base_model"), name)


def test_stages_side_by_side_are_no_residual_stream():
    assert find_structure(Stages()).blocks == ()


def test_modules_without_blocks():
    for module in (nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), nn.GRU(2, 3), nn.Sequential()):
        found = find_structure(module)
        assert (found.blocks, found.embed, found.final_norm, found.backbone) == ((), None, None, "")
    assert find_structure(nn.GRU(2, 3)).causal
    assert not find_structure(nn.GRU(2, 3, bidirectional=True)).causal


def test_lists_of_norms_and_of_dropouts_are_no_blocks():
    net = nn.ModuleDict({"norms": nn.ModuleList(nn.LayerNorm(4) for _ in range(9)), "drops": nn.ModuleList(nn.Dropout() for _ in range(9))})
    net["body"] = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
    assert find_structure(net).blocks == ("body.0", "body.1")


def test_a_wrapped_model_keeps_its_places():
    found = find_structure(Wrapper(tiny("llama").module))
    assert found.backbone == "base_model.model"
    assert found.blocks[0] == "base_model.model.layers.0"
    assert found.final_norm == "base_model.model.norm"


def test_looking_changes_nothing():
    model = tiny("gpt2")
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    find_structure(model.module)
    assert all(torch.equal(value, before[name]) for name, value in model.module.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.module.modules())
