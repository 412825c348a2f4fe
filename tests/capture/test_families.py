import pytest
import torch

from transect.testing.capture_checks import check_capture
from transect.testing.tiny import FAMILIES, tiny

SHAPES = {"vit": (12, 3, 8, 8), "gru": (12, 7, 8), "mlp": (120, 8)}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_keeps_the_contract(family, texts):
    model = tiny(family)
    check_capture(model, texts[:6] if model.takes == "tokens" else torch.randn(*SHAPES[family]))


def test_rwkv_that_rescales_its_weights_is_put_back(texts):
    from transformers import RwkvConfig, RwkvForCausalLM

    from transect.models import load
    from transect.testing.tiny import tiny_tokenizer

    config = RwkvConfig(vocab_size=384, hidden_size=16, num_hidden_layers=3, context_length=64, rescale_every=1)
    check_capture(
        load(RwkvForCausalLM(config).eval(), tokenizer=tiny_tokenizer()), texts[:4], sites=["layers[1]", "layers[2]"], batch_tokens=16
    )
