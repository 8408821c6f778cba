from hepm.lab.collaboration.rules import PREFERENCES, sentences

CODE = "```python\n# heading\n- 1\nprint('Hi!')\n```"


HOSTILE = [
    ("three sentences", "Use e.g. 3.14 here. Dr. Lee agrees. Done.\n" + CODE, "One. Two! Three? Four."),
    ("bullets", "Do:\n- this\n- that", CODE),
    ("numbers", "1. Go\n2. Stop", "It took 1.5 hours in 2024."),
    ("no lists", "The range is 3 - 5.\n" + CODE, "* one\n* two"),
    ("headings", "## Part\nText.", CODE),
    ("no code", "Call `f(x)`.", CODE),
    ("no emoji", "Price: 5 € → 6 €.", "Done 🎉"),
    ("no exclamation", "Fine.\n" + CODE, "Fine!"),
    ("bold", "It is **4**.", "2 ** 3 ** 2 is 512."),
    ("short", "Yes.", "word " * 51),
]


def test_a_rule_judges_a_hostile_message_as_a_reader_would() -> None:
    for name, kept, violated in HOSTILE:
        assert PREFERENCES[name].kept(kept), kept
        assert not PREFERENCES[name].kept(violated), violated


def test_chinese_sentences_are_counted():
    assert sentences("你好。再见。") == 2
