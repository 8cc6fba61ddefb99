from landfall_operator.api.verbs import (
    MAX_VALUE,
    PAUSE,
    Verb,
    annotation,
    is_paused,
    requested,
    still_answered,
)


def test_an_annotation_names_the_verb_and_its_value_the_argument() -> None:
    assert requested({"landfall.dev/rollback": "g3-1a2b3c4d"}) == (Verb.ROLLBACK, "g3-1a2b3c4d")


def test_other_annotations_request_nothing() -> None:
    assert requested({"landfall.dev/digest": "1", "example.org/retry": "", PAUSE: "true"}) is None


def test_of_two_verbs_one_is_carried_out_first() -> None:
    both = {annotation(Verb.RESTART): "", annotation(Verb.RETRY): ""}

    assert requested(both) == (Verb.RETRY, "")


def test_only_the_value_true_pauses() -> None:
    assert is_paused({PAUSE: "true"})
    assert is_paused({PAUSE: " True"})
    assert not is_paused({PAUSE: "false"})
    assert not is_paused({PAUSE: ""})
    assert not is_paused({})


def test_of_a_long_value_the_start_counts() -> None:
    name, huge = annotation(Verb.RESTART), "x" * 250_000

    assert requested({name: huge}) == (Verb.RESTART, "x" * MAX_VALUE)
    assert requested({name: huge}, {Verb.RESTART: "x" * MAX_VALUE}) is None
    assert still_answered({name: huge}, {Verb.RESTART: "x" * MAX_VALUE}) == {
        Verb.RESTART: "x" * MAX_VALUE
    }
