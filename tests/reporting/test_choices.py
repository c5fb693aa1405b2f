import numpy as np

from bmcd.reporting.choices import N_EXAMPLES, choose_example_users


def examples_of(reported, users=None):
    return choose_example_users(reported.model, reported.model, reported.train, [reported.model.lists(2)], users)


def test_users_asked_for_come_in_that_order_and_once(reported):
    ids = reported.train.users[[5, 2, 5]].tolist()
    assert [example.user for example in examples_of(reported, ids)] == ids[:2]


def test_each_has_the_clicks_of_the_matrix(reported):
    train = reported.train.matrix.toarray()
    for example in examples_of(reported):
        assert list(example.clicked) == np.flatnonzero(train[example.row]).tolist()
        assert example.reasons == {}  # a blend has them


def test_they_are_spread_over_the_groups_and_always_the_same(reported):
    examples = examples_of(reported)
    assert len({example.row for example in examples}) == N_EXAMPLES
    assert {example.memberships[0][0] for example in examples} == {1, 2}
    assert [example.row for example in examples_of(reported)] == [example.row for example in examples]


def test_memberships_are_those_of_the_model_the_most_probable_first(reported):
    for example in examples_of(reported):
        row = reported.model.memberships([example.user]).iloc[0]
        assert dict(example.memberships) == {1: row["1"], 2: row["2"]}
        assert example.memberships[0][1] >= example.memberships[1][1]
