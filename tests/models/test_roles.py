"""Roles and spans in conversations: found where the template put them, whatever the template's own words are."""

import dataclasses

import pytest

from transect.capture import capture
from transect.capture.naive import naive_capture
from transect.data import read_table
from transect.errors import InputError, TokenRuleError
from transect.models import encode
from transect.models.roles import role_masks
from transect.testing import tiny, tiny_chat_tokenizer

PLAIN = (
    "{{ bos_token }}{% for m in messages %}<turn>{{ m.role }}\n{{ m.content }}</turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<turn>assistant\n{% endif %}"
)
# As Gemma's: no system turn of its own, another name for the assistant, white space trimmed.
MERGED = (
    "{{ bos_token }}{% set first = messages[0].content + '\n\n' if messages[0].role == 'system' else '' %}"
    "{% for m in (messages[1:] if first else messages) %}<turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ first if loop.first else '' }}{{ m.content | trim }}</turn>\n{% endfor %}{% if add_generation_prompt %}<turn>model\n{% endif %}"
)
# As Qwen's: the thinking of earlier turns is left out.
THINKS = (
    "{{ bos_token }}{% for m in messages %}<turn>{{ m.role }}\n"
    "{{ m.content if loop.last or '</think>' not in m.content else m.content.split('</think>')[-1] | trim }}</turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<turn>assistant\n{% endif %}"
)
UPPER = PLAIN.replace("m.content }}", "m.content | upper }}")
TWICE = PLAIN.replace("{{ m.content }}", "{{ m.content }} {{ m.content }}")
COUNTS = PLAIN.replace("{{ m.content }}", "{{ m.content | length }}: {{ m.content }}")

CHAT = [
    {"role": "system", "content": "user assistant"},
    {"role": "user", "content": " user "},
    {"role": "assistant", "content": "Yes: it is"},
    {"role": "tool", "content": "100"},
    {"role": "user", "content": "Is it? user"},
    {"role": "assistant", "content": "<think>\nten is larger\n</think>\n\nten larger"},
]


def model_with(template):
    tokenizer = tiny_chat_tokenizer()
    tokenizer.chat_template = template
    return dataclasses.replace(tiny("llama"), tokenizer=tokenizer, max_length=None)


def said(model, chat, role):
    """What the last content of a role reads as, by its tokens."""
    encoded = encode(model, [chat], role=role)
    start, end = encoded.spans[0]
    return model.tokenizer.decode(encoded.ids[0][start:end])


@pytest.mark.parametrize("template", [PLAIN, MERGED, THINKS], ids=["plain", "merged", "thinks"])
@pytest.mark.parametrize(
    ("role", "text"),
    [("system", "user assistant"), ("user", "Is it? user"), ("assistant", "ten larger"), ("thinking", "ten is larger"), ("tool", "100")],
)
def test_the_last_content_of_a_role(template, role, text):
    # Byte-level tokens take the space before a word; a span takes every token it touches.
    assert said(model_with(template), CHAT, role).strip() == text


@pytest.mark.parametrize("template", [PLAIN, MERGED], ids=["plain", "merged"])
def test_masks_hold_every_content_of_a_role_and_do_not_overlap(template):
    model = model_with(template)
    ids = encode(model, [CHAT]).ids[0]
    masks = {role: role_masks(model, [CHAT], role)[0] for role in ("system", "user", "assistant", "thinking", "tool")}
    words = {
        role: model.tokenizer.decode([token for token, inside in zip(ids, mask.tolist(), strict=True) if inside])
        for role, mask in masks.items()
    }
    assert {role: text.split() for role, text in words.items()} == {
        "system": ["user", "assistant"],
        "user": ["userIs", "it?", "user"],
        "assistant": ["Yes:", "it", "isten", "larger"],
        "thinking": ["ten", "is", "larger"],
        "tool": ["100"],
    }
    assert int(sum(mask.int() for mask in masks.values()).max()) == 1
    assert not role_masks(model, [CHAT], "critic")[0].any()


def test_the_rule_reads_those_tokens_and_equals_its_definition():
    model = model_with(PLAIN)
    chats = [CHAT, [{"role": "user", "content": "Lima"}, {"role": "assistant", "content": "<think>no</think>Yes: it is"}]]
    for rule in ("role:assistant", "role:user", "role:assistant[*]", "role:thinking[-1]", "role:user[0]", "generated[*]", "generated[:]"):
        acts = capture(model, read_table(chats), sites="layers[1]", tokens=rule)
        expected = naive_capture(model, read_table(chats), sites="layers[1]", tokens=rule)
        assert (acts["layers[1]"] - expected["layers[1]"]).abs().max() < 1e-5
    every = capture(model, read_table(chats), sites="layers[1]", tokens="role:assistant[*]")
    one = capture(model, read_table(chats), sites="layers[1]", tokens="role:assistant")
    first = every["layers[1]"][[row == 0 for row in every.rows["row"].to_pylist()]]
    assert (first.mean(0) - one["layers[1]"][0]).abs().max() < 1e-5
    encoded = encode(model, chats, role="assistant")
    assert [stop - start for start, stop in encoded.spans] == [every.rows["row"].to_pylist().count(row) for row in (0, 1)]


def test_plain_texts_in_the_template_have_a_user():
    model = model_with(PLAIN)
    acts = capture(model, ["user", "The city"], sites="layers[0]", tokens="role:user[*]", chat=True)
    assert model.tokenizer.decode(acts.rows["token_id"].to_pylist()) == "userThe city"


@pytest.mark.parametrize(
    ("template", "says"),
    [(UPPER, "message 0 .*in other words"), (TWICE, "message 0 .*more than once"), (COUNTS, "message 0 .*in other words")],
    ids=["upper", "twice", "counts"],
)
def test_a_template_that_rewrites_a_content_is_refused_by_name(template, says):
    with pytest.raises(InputError, match=f"row 0: .*{says}"):
        encode(model_with(template), [[{"role": "user", "content": "Is it?"}]], role="user")


def test_what_is_not_there_is_named():
    model = model_with(THINKS)
    earlier = [*CHAT[4:], {"role": "user", "content": "No"}]
    with pytest.raises(TokenRuleError, match="leaves out the last 'thinking' content"):
        encode(model, [earlier], role="thinking")
    assert said(model, earlier, "user") == "No"
    with pytest.raises(TokenRuleError, match="no message has content of the role 'tool'; the roles here are user"):
        encode(model, [[{"role": "user", "content": "No"}]], role="tool")
    with pytest.raises(InputError, match="says 'Hm' before <think>"):
        encode(model, [[CHAT[4], {"role": "assistant", "content": "Hm <think>a</think> b"}]], role="assistant")
    with pytest.raises(InputError, match="plain texts"):
        encode(model, ["No"], role="user")
    with pytest.raises(InputError, match="not both"):
        encode(model, ["No"], role="user", spans=["No"], chat=True)


def span_text(model, table, column="mark", **settings):
    acts = capture(model, table, sites="layers[0]", tokens=f"span:{column}", **settings)
    ids = acts.rows["token_ids"].to_pylist()
    ranges = zip(acts.rows["start"].to_pylist(), acts.rows["stop"].to_pylist(), strict=True)
    return [model.tokenizer.decode(row[start:stop]).strip() for row, (start, stop) in zip(ids, ranges, strict=True)]


@pytest.mark.parametrize("template", [PLAIN, MERGED], ids=["plain", "merged"])
def test_span_columns_under_a_template(template):
    model = model_with(template)
    # The word that is marked stands in the markup too, before the content.
    acts = capture(model, read_table([{"text": " user", "mark": "user"}], span="mark"), sites="layers[0]", tokens="span:mark", chat=True)
    written = encode(model, [" user"], chat=True).ids[0]
    before = model.tokenizer.decode(written[: acts.rows["start"].to_pylist()[0]])
    assert before.rstrip(" ").endswith("<turn>user\n")
    chats = [[{"role": "user", "content": "user one"}, {"role": "assistant", "content": "one user"}], CHAT]
    marked = read_table([{"messages": chats[0], "mark": "13:17"}, {"messages": chats[1], "mark": "16:20"}], span="mark")
    assert span_text(model, marked) == ["user", "user"]
    at = capture(model, marked, sites="layers[0]", tokens="span:mark").rows["start"].to_pylist()
    assert model.tokenizer.decode(encode(model, [chats[0]]).ids[0][: at[0]]).rstrip().endswith("one")


def test_a_span_that_the_template_leaves_out_is_refused():
    model = model_with(THINKS)
    chat = [*CHAT[4:], {"role": "user", "content": "No"}]
    start = "\n".join(message["content"] for message in chat).index("ten is")
    with pytest.raises(InputError, match="message 1 is white space, or the chat template leaves it out"):
        encode(model, [chat], spans=[(start, start + 3)])
    with pytest.raises(InputError, match="over the end of a message"):
        encode(model, [chat], spans=[(5, 15)])
