import json

from bmcd.markup import json_script, short_title, tag


def test_text_and_attributes_are_escaped():
    assert tag("p", "<b>", title='"x"') == '<p title="&quot;x&quot;">&lt;b&gt;</p>'


def test_nothing_in_data_can_end_its_element():
    script = json_script("d", {"a": "</script><!--\u2028&"})
    inside = script[script.index(">") + 1 : script.rindex("</")]
    assert not set("<>&\u2028") & set(inside)
    assert json.loads(inside) == {"a": "</script><!--\u2028&"}


def test_a_title_of_spaces_is_no_title():
    assert short_title("\t ") == "(no title)"
