"""The first mistake of the published method's trees, against small cases by hand."""

import json

import pytest

from lstoc_core.discovery.published.forward import Forward, ForwardConfig
from lstoc_core.study.mistakes import first_mistake, tree_facts

TRUTH = ((1, 2, 4), (3, 4))  # ((a;b)|c);d


@pytest.mark.parametrize(
    ("nodes", "mistake"),
    [
        ([], "right"),
        ([(1,), (1, 2), (1, 2, 4), (3,), (3, 4)], "right"),
        ([(1,), (1, 3), (1, 3, 4)], "right"),  # a success through c may visit a first
        ([(1,), (4,)], "early"),
        ([(1,), (1, 4)], "early"),
        ([(2,)], "early"),
        ([(1,), (1, 9), (4,)], "other"),
    ],
)
def test_the_first_wrong_node_decides(nodes, mistake):
    assert first_mistake(nodes, TRUTH) == mistake


def test_all_trees_count_and_a_resumed_run_keeps_them():
    method = Forward(ForwardConfig())
    for path in ((4,), (1, 2), (9,)):
        node = 0
        for index, key in enumerate(path):
            method.key_states.append(key)
            node = method.tree.expand(node, index)
        method._restart(method.missing.needs[0])
    assert tree_facts(method, TRUTH) == {"trees_right": 1, "trees_early": 1, "trees_other": 1}
    again = Forward(ForwardConfig())
    again.load_state_dict(json.loads(json.dumps(method.state_dict())))
    assert tree_facts(again, TRUTH) == tree_facts(method, TRUTH)
    assert tree_facts(None, TRUTH) == {}
