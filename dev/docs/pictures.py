"""Pictures that are laid out by hand: one batch, the commit in time, a handover, all parts."""

from dev.docs.drawing import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    HEAD,
    INK,
    MUTED,
    NOTE,
    PLAIN,
    RED,
    SMALL,
    Box,
    Drawing,
    Style,
    Tone,
)


def batch() -> str:
    """``docs/images/batch.svg``: from Kafka to visible objects."""
    drawing = Drawing(
        880, 290, "One batch: plan, read and upload, commit to the ledger, complete the uploads"
    )
    drawing.labelled(Box(20, 60, 110, 100), ["Kafka", "topics"], GREY)
    drawing.box(Box(165, 20, 470, 180), PLAIN, dashed=True)
    drawing.words(177, 40, "Spark application of the group", NOTE)
    drawing.labelled(Box(180, 60, 120, 100), ["1  plan", "which offset", "ranges are due"], BLUE)
    drawing.labelled(
        Box(340, 60, 150, 100),
        ["2  tasks", "read [start, end)", "decode · route · encode", "upload parts"],
        BLUE,
    )
    drawing.labelled(Box(522, 60, 100, 100), ["3  check", "do all counts", "add up?"], BLUE)
    drawing.box(Box(706, 20, 154, 180), GREY)
    drawing.words(718, 40, "S3 bucket", NOTE)
    drawing.labelled(Box(720, 56, 126, 54), ["ledger", "COMMIT record"], GREEN)
    drawing.labelled(Box(720, 136, 126, 50), ["objects", "visible now"], GREEN)
    drawing.path("M130 110H178")
    drawing.path("M300 110H338")
    drawing.path("M490 110H520")
    drawing.path("M622 84H718", GREEN)
    drawing.path("M572 160V180H672V161H718", GREEN)
    drawing.words(671, 77, "4  commit", SMALL)
    drawing.words(671, 153, "5  complete", SMALL)
    drawing.path("M415 160V226H783V202", GREY, dashed=True)
    drawing.words(
        600, 243, "uploaded in step 2, but not completed: no listing shows it before step 5", SMALL
    )
    drawing.path("M240 160V262H75V162", GREY, dashed=True)
    drawing.words(
        250,
        267,
        "after the commit: offsets are mirrored to the Kafka group, for lag tools only",
        NOTE,
    )
    return drawing.svg()


def commit_timeline() -> str:
    """``docs/images/commit-timeline.svg``: what a crash means before and after the commit point."""
    drawing = Drawing(
        860,
        356,
        "The commit in time: before the commit point nothing exists, after it everything happened",
    )
    for y, name in ((58, "tasks"), (118, "driver"), (178, "ledger"), (238, "bucket")):
        drawing.words(24, y + 21, name, HEAD)
        drawing.path(f"M92 {y + 17}H836", GREY, arrow=False)
    drawing.labelled(Box(186, 58, 206, 34), ["read, encode, upload parts"], BLUE)
    drawing.labelled(Box(100, 118, 74, 34), ["plan"], BLUE)
    drawing.labelled(Box(396, 118, 74, 34), ["check"], BLUE)
    drawing.labelled(Box(480, 178, 100, 34), ["COMMIT n"], GREEN)
    drawing.labelled(Box(596, 118, 150, 34), ["complete uploads"], BLUE)
    drawing.labelled(Box(190, 238, 390, 34), ["open uploads: in no listing"], GREY)
    drawing.labelled(Box(670, 238, 166, 34), ["visible objects"], GREEN)
    drawing.path("M174 128L204 96")
    drawing.path("M392 82L414 116")
    drawing.path("M452 152L482 176", GREEN)
    drawing.path("M580 184L606 154", GREEN)
    drawing.path("M700 152V236")
    drawing.path("M530 44V286", RED, dashed=True, arrow=False)
    drawing.words(
        530,
        36,
        "commit point: slot n is created, if absent",
        Style(size=12, color=RED.line, bold=True),
    )
    drawing.box(Box(100, 294, 420, 44), AMBER)
    drawing.words(
        310,
        312,
        "crash here: nothing of the batch exists",
        Style(size=12, bold=True, color=AMBER.line),
    )
    drawing.words(310, 329, "the range is planned again; open uploads are aborted later", SMALL)
    drawing.box(Box(540, 294, 296, 44), GREEN)
    drawing.words(
        688, 312, "crash here: all of it happened", Style(size=12, bold=True, color=GREEN.line)
    )
    drawing.words(688, 329, "the next driver completes the same uploads", SMALL)
    return drawing.svg()


SLOT = (96, 34)


def _slots(drawing: Drawing, y: float, slots: list[tuple[str, Tone]]) -> None:
    """Consecutive slots of a ledger."""
    for number, (label, tone) in enumerate(slots):
        box = Box(150 + number * 100, y, *SLOT)
        drawing.box(box, tone, radius=3)
        drawing.words(box.center[0], y + 22, label, Style(size=12, mono=True, color=tone.line))


def handover() -> str:
    """``docs/images/handover.svg``: with an old driver that answers, and one that does not."""
    drawing = Drawing(
        860, 462, "A handover by YIELD and OPEN, and a takeover of a driver that does not answer"
    )
    _with_answer(drawing)
    drawing.path("M20 256H840", GREY, arrow=False)
    _without_answer(drawing)
    return drawing.svg()


def _with_answer(drawing: Drawing) -> None:
    drawing.words(24, 30, "The old driver answers", HEAD)
    drawing.words(24, 74, "old driver", NOTE)
    drawing.labelled(
        Box(150, 50, 296, 36), ["lands", "finishes its batches, then hands over"], BLUE
    )
    drawing.labelled(Box(456, 50, 280, 36), ["Yielded", "answers, until it is stopped"], GREY)
    _slots(
        drawing,
        112,
        [
            ("COMMIT", BLUE),
            ("COMMIT", BLUE),
            ("YIELD", AMBER),
            ("OPEN", GREEN),
            ("COMMIT", GREEN),
            ("…", GREEN),
        ],
    )
    drawing.words(24, 134, "ledger", NOTE)
    drawing.words(24, 192, "new driver", NOTE)
    drawing.labelled(
        Box(150, 170, 296, 36), ["Standby", "warm; lists new slots once a second"], GREY
    )
    drawing.labelled(Box(456, 170, 280, 36), ["lands", "from the checkpoint that both fold"], GREEN)
    drawing.path("M398 86V110", AMBER)
    drawing.path("M498 170V148", GREEN)
    drawing.path("M350 222H545", GREY, arrow=False)
    drawing.words(448, 238, "the pause: one look at the ledger", SMALL)


def _without_answer(drawing: Drawing) -> None:
    drawing.words(24, 284, "The old driver does not answer within drainTimeout", HEAD)
    drawing.words(24, 326, "old driver", NOTE)
    drawing.labelled(Box(150, 302, 196, 36), ["lands", "then hangs"], BLUE)
    drawing.labelled(
        Box(556, 302, 280, 36),
        ["wakes: its slot is taken", "Fenced: it stops, its uploads stay invisible"],
        RED,
    )
    _slots(
        drawing,
        360,
        [
            ("COMMIT", BLUE),
            ("COMMIT", BLUE),
            ("OPEN", GREEN),
            ("COMMIT", GREEN),
            ("COMMIT", GREEN),
            ("…", GREEN),
        ],
    )
    drawing.words(24, 382, "ledger", NOTE)
    drawing.words(24, 430, "new driver", NOTE)
    drawing.labelled(
        Box(350, 408, 386, 36),
        ["lands", "raises the epoch; completes what the old one committed"],
        GREEN,
    )
    drawing.path("M398 408V396", GREEN)
    drawing.path("M600 338C560 350 470 340 420 358", RED, dashed=True)


def architecture() -> str:
    """``docs/images/architecture.svg``: packages of both halves, and the services they call."""
    drawing = Drawing(
        860, 560, "Operator and data plane: their packages, from the edges down to the pure core"
    )
    drawing.labelled(Box(30, 20, 340, 38), ["Kubernetes API"], GREY)
    drawing.labelled(Box(420, 20, 200, 38), ["Kafka"], GREY)
    drawing.labelled(Box(640, 20, 190, 38), ["S3 or a folder"], GREY)
    drawing.box(Box(30, 84, 340, 360), PLAIN, dashed=True)
    drawing.words(44, 106, "operator · landfall_operator", HEAD)
    _layers(drawing, 44, 312, OPERATOR)
    drawing.box(Box(420, 84, 410, 360), PLAIN, dashed=True)
    drawing.words(434, 106, "data plane · landfall", HEAD)
    _layers(drawing, 434, 382, DATA_PLANE)
    drawing.labelled(
        Box(30, 470, 800, 66),
        [
            "api",
            "what both halves share: the resource as a user writes it, and what a driver answers",
        ],
        AMBER,
    )
    drawing.path("M200 84V60", BLUE)
    drawing.path("M520 84V60", BLUE)
    drawing.path("M735 84V60", BLUE)
    drawing.path("M200 444V468", GREY, dashed=True)
    drawing.path("M625 444V468", GREY, dashed=True)
    drawing.path("M370 200H418", BLUE)
    drawing.words(395, 192, "HTTP", Style(size=10.5, color=MUTED))
    return drawing.svg()


OPERATOR = (
    ("runtime", "reconciler, work queue, API and driver clients", BLUE),
    ("reporting", "status, conditions, texts of Events", GREEN),
    ("core", "cache, rollout table, desired state, autoscaler", GREEN),
    ("objects", "manifests, pod templates, rights", GREEN),
    ("landfall_operator.api", "the CRD, the status, validation", GREEN),
)
DATA_PLANE = (
    ("cli", "the commands", BLUE),
    ("driver", "the loop, handover, recovery; Spark and HTTP", BLUE),
    ("task · publish · registry · lane", "executors; publishers; plug-ins; the ledger", BLUE),
    ("formats · source · store", "the edges, behind small protocols", BLUE),
    ("plan · checks · pipeline", "what lands next; fsck; decode and route", GREEN),
    ("ledger · objects", "records and their fold; uploads as values", GREEN),
)


def _layers(
    drawing: Drawing, x: float, width: float, layers: tuple[tuple[str, str, Tone], ...]
) -> None:
    """Boxes from the top of a half to its bottom; green ones are pure."""
    step = 318 / len(layers)
    for number, (name, text, tone) in enumerate(layers):
        box = Box(x, 118 + number * step, width, step - 9)
        drawing.box(box, tone)
        middle = box.y + box.height / 2
        drawing.words(box.center[0], middle - 3, name, Style(bold=True, color=tone.line))
        drawing.words(box.center[0], middle + 14, text, Style(size=11.5, color=INK))
