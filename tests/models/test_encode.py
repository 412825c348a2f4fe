"""Texts and conversations to token ids."""

import dataclasses

import pytest

from transect.errors import InputError
from transect.models import encode, load
from transect.testing.tiny import tiny, tiny_chat_tokenizer

PLAIN = tiny("llama")
CHAT = load(PLAIN.module, tokenizer=tiny_chat_tokenizer())
TEXTS = ["The city of Paris is in France.", "Yes", "The city of Lima is not in Peru, said the man."]
BOS = 1


def pieces(model, ids):
    return model.tokenizer.convert_ids_to_tokens(list(ids))


def text(model, ids):
    return model.tokenizer.decode(list(ids))


def test_rows_are_not_padded_and_have_the_tokenizer_s_special_tokens():
    encoded = encode(PLAIN, TEXTS)
    assert len(encoded) == 3
    for row, ids in enumerate(encoded.ids):
        assert ids == PLAIN.tokenizer(TEXTS[row])["input_ids"]
        assert ids[0] == BOS
        assert 0 not in ids
        assert encoded.prompts[row] == (0, len(ids))
    assert encoded.spans is None
    assert encoded.n_truncated == 0


def test_one_by_one_is_all_at_once():
    together = encode(PLAIN, TEXTS)
    assert [encode(PLAIN, [one]).ids[0] for one in TEXTS] == list(together.ids)


def test_no_rows():
    assert len(encode(PLAIN, [])) == 0


def test_a_text_as_a_user_turn_has_one_beginning_of_text():
    encoded = encode(CHAT, ["hi there"], chat=True)
    assert text(CHAT, encoded.ids[0]) == "<s><turn>user\nhi there</turn>\n<turn>assistant\n"
    assert encoded.ids[0].count(BOS) == 1
    assert encoded.prompts == ((0, len(encoded.ids[0])),)
    without = encode(CHAT, ["hi there"], chat=True, add_generation_prompt=False)
    assert text(CHAT, without.ids[0]) == "<s><turn>user\nhi there</turn>\n"


def test_the_prompt_ends_where_the_answer_begins():
    messages = [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "Yes: it is."}]
    encoded = encode(CHAT, [messages, messages[:1]])
    start, end = encoded.prompts[0]
    assert text(CHAT, encoded.ids[0][start:end]) == "<s><turn>user\nIs it?</turn>\n<turn>assistant\n"
    assert text(CHAT, encoded.ids[0][end:]) == "Yes: it is.</turn>\n"
    # The same question without its answer is the same prompt, so prompt[-1] is the same place.
    assert encoded.ids[1] == encoded.ids[0][:end]
    assert encoded.prompts[1] == (0, end)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for m in messages %}{{ m['content'] }}|{{ messages | length }}|{% endfor %}", "the prompt depends on what follows"),
        ("{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}>{% endif %}", "the opening is not repeated"),
        ("{{ messages[0]['content'] }}", "the answer is left out"),
    ],
)
def test_a_template_that_does_not_only_append_is_refused(template, why):
    tokenizer = tiny_chat_tokenizer()
    tokenizer.chat_template = template
    messages = [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "Yes"}]
    with pytest.raises(InputError, match="row 0: the place before the answer is not defined"):
        encode(load(PLAIN.module, tokenizer=tokenizer), [messages])


def test_a_template_that_refuses_a_conversation_is_quoted_with_the_row():
    tokenizer = tiny_chat_tokenizer()
    tokenizer.chat_template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}{{ messages[0]['content'] }}"
    )
    model = load(PLAIN.module, tokenizer=tokenizer)
    good, bad = [{"role": "user", "content": "a"}], [{"role": "system", "content": "b"}]
    assert len(encode(model, [good])) == 1
    with pytest.raises(InputError, match=r"row 1: .*roles \['system'\]: no system role"):
        encode(model, [good, bad])


@pytest.mark.parametrize(
    ("model", "texts", "settings", "says"),
    [
        (PLAIN, ["a"], {"chat": True}, "no chat template"),
        (PLAIN, [[{"role": "user", "content": "a"}]], {}, "no chat template"),
        (CHAT, [[{"role": "assistant", "content": "a"}]], {}, "row 0: the conversation holds an answer and nothing before it"),
        (CHAT, ["a", [{"role": "user", "content": "a"}]], {}, "a text in row 0 and a conversation in row 1"),
        (PLAIN, ["a", "", "  ", "b"], {}, "2 of 4 texts are empty or blank: row 1, 2"),
        (PLAIN, ["a", None, float("nan")], {}, "got None in row 1; 2 of 3 rows"),
        (PLAIN, ["a", []], {}, "got [] in row 1"),
        (PLAIN, "a text", {}, "got one string"),
        (tiny("mlp"), ["a"], {}, "no tokenizer"),
        (PLAIN, TEXTS, {"spans": ["Paris"]}, "one span per text, got 1 spans for 3 texts"),
        (PLAIN, TEXTS[:1], {"spans": ["Rome"]}, "row 0: the span 'Rome' does not occur in the text"),
        (PLAIN, TEXTS[:1], {"spans": [""]}, "row 0: the span '' does not occur"),
        (PLAIN, TEXTS[:1], {"spans": [(5, 99)]}, "row 0: the span (5, 99) is not a character range"),
        (PLAIN, TEXTS[:1], {"spans": [(5, 5)]}, "row 0: the span (5, 5) is not a character range"),
        (CHAT, [[{"role": "user", "content": "a"}]], {"spans": [(0, 2)]}, "row 0: the span (0, 2) is not a character range"),
    ],
)
def test_bad_input_is_named(model, texts, settings, says):
    with pytest.raises(InputError) as caught:
        encode(model, texts, **settings)
    assert says in str(caught.value)


def test_spans_by_text_and_by_range_agree():
    by_text = encode(PLAIN, TEXTS[:1], spans=["Paris"])
    start = TEXTS[0].index("Paris")
    by_range = encode(PLAIN, TEXTS[:1], spans=[(start, start + 5)])
    with_space = encode(PLAIN, TEXTS[:1], spans=[(start - 1, start + 6)])
    assert by_text.spans == by_range.spans == with_space.spans
    ((first, last),) = by_text.spans
    assert text(PLAIN, by_text.ids[0][first:last]).strip() == "Paris"


def test_a_span_takes_its_first_occurrence_and_every_token_it_touches():
    encoded = encode(PLAIN, ["ice, ice naïve 🙂!"], spans=["ice"])
    first, last = encoded.spans[0]
    assert first == 1
    assert text(PLAIN, encoded.ids[0][first:last]) == "ice"
    first, last = encode(PLAIN, ["ice naïve 🙂!"], spans=["🙂"]).spans[0]
    assert text(PLAIN, encode(PLAIN, ["ice naïve 🙂!"]).ids[0][first:last]).strip() == "🙂"
    assert last - first >= 4  # one token per byte


def test_spans_inside_a_chat_template():
    encoded = encode(CHAT, ["The city of Paris"], chat=True, spans=["Paris"])
    by_range = encode(CHAT, ["The city of Paris"], chat=True, spans=[(12, 17)])
    first, last = encoded.spans[0]
    assert encoded.spans == by_range.spans
    assert text(CHAT, encoded.ids[0][first:last]).strip() == "Paris"


def test_a_template_that_trims_moves_ranges_along():
    tokenizer = tiny_chat_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}<turn>{{ m['content'] | trim }}</turn>{% endfor %}"
    model = load(PLAIN.module, tokenizer=tokenizer)
    first, last = encode(model, ["  The city of Paris "], chat=True, spans=[(14, 19)]).spans[0]
    ids = encode(model, ["  The city of Paris "], chat=True).ids[0]
    assert text(model, ids[first:last]).strip() == "Paris"


def test_long_texts_are_refused_or_cut_and_counted():
    texts = [*TEXTS, "one two three " * 60, "four " * 70]
    with pytest.raises(InputError, match=r"2 of 5 texts are longer than the limit of 64 tokens; the longest is row \d with \d+"):
        encode(PLAIN, texts)
    whole = encode(dataclasses.replace(PLAIN, max_length=None), texts)
    cut = encode(PLAIN, texts, truncate=True)
    assert cut.n_truncated == 2
    for row, ids in enumerate(cut.ids):
        assert ids == whole.ids[row][:64]
        assert cut.prompts[row] == (0, len(ids))
    shorter = encode(PLAIN, texts, truncate=True, max_length=5)
    assert max(len(ids) for ids in shorter.ids) == 5
    assert shorter.n_truncated == sum(len(ids) > 5 for ids in whole.ids)
    assert max(len(ids) for ids in encode(PLAIN, texts, truncate=True, max_length=10**6).ids) == 64  # the model's limit still holds


def test_cutting_keeps_the_special_tokens_at_the_end():
    from tokenizers import processors

    tokenizer = tiny_chat_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    encoded = encode(load(PLAIN.module, tokenizer=tokenizer), ["The city of Paris is in France."], max_length=6, truncate=True)
    assert len(encoded.ids[0]) == 6
    assert (encoded.ids[0][0], encoded.ids[0][-1]) == (1, 2)


def test_a_span_that_would_be_cut_off_is_refused():
    with pytest.raises(InputError, match=r"row 0: the span covers tokens .* but truncation keeps 3"):
        encode(PLAIN, TEXTS[:1], spans=["France"], max_length=3, truncate=True)


def test_the_tokenizer_is_not_changed():
    before = PLAIN.tokenizer.backend_tokenizer.to_str()
    encode(PLAIN, TEXTS, truncate=True, max_length=4, spans=["The", "Yes", "The"])
    assert PLAIN.tokenizer.backend_tokenizer.to_str() == before


def test_the_tokenizer_of_another_model_is_noticed():
    tokenizer = tiny_chat_tokenizer()
    tokenizer.add_tokens([f"word{index}" for index in range(60)])
    model = load(PLAIN.module, tokenizer=tokenizer)
    assert encode(model, TEXTS).ids == encode(PLAIN, TEXTS).ids
    with pytest.raises(InputError, match=r"row 1: token id \d+ is outside the model's vocabulary of 384"):
        encode(model, ["The", "word59"])
