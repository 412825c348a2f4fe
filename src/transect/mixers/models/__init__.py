"""Whole models of sequence layers, as transformers knows models: they generate, save, load and train with its Trainer.

model = build(StackConfig(layers=["gdn", "gdn", "gdn", "attention"], hidden_size=256, vocab_size=8192))
model = read_checkpoint("folder of a Mamba-2, Qwen3-Next or RWKV-4 model")
"""

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, __version__

from transect.mixers.models.cache import StackCache
from transect.mixers.models.config import StackConfig
from transect.mixers.models.needs import check_transformers
from transect.mixers.models.readers import read_checkpoint
from transect.mixers.models.stack import StackForCausalLM, StackModel, build

__all__ = ["StackCache", "StackConfig", "StackForCausalLM", "StackModel", "build", "read_checkpoint"]

check_transformers(__version__)
AutoConfig.register(StackConfig.model_type, StackConfig, exist_ok=True)
AutoModel.register(StackConfig, StackModel, exist_ok=True)
AutoModelForCausalLM.register(StackConfig, StackForCausalLM, exist_ok=True)
