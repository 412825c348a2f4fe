"""The chat template that is in force, as a short hash: what a probe fitted to conversations depends on."""

import hashlib
import json
from typing import Any


def template_hash(tokenizer: Any | None) -> str | None:
    """16 hex digits of a tokenizer's chat template as it is now; None where there is no tokenizer or no template.

    `Model.fingerprint` covers the template too, but is taken once; this one is read anew.

    Examples:
        >>> from transect.testing.tiny import tiny_chat_tokenizer, tiny_tokenizer
        >>> len(template_hash(tiny_chat_tokenizer())), template_hash(tiny_tokenizer())
        (16, None)
    """
    template = getattr(tokenizer, "chat_template", None)
    if not template:
        return None
    # Several templates come as a mapping from names.
    text = template if isinstance(template, str) else json.dumps(template, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
