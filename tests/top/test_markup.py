from bmcd.markup import short_title, tag


def test_text_and_attributes_are_escaped():
    assert tag("p", "<b>", title='"x"') == '<p title="&quot;x&quot;">&lt;b&gt;</p>'


def test_a_title_of_spaces_is_no_title():
    assert short_title("\t ") == "(no title)"
