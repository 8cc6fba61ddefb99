"""CEL rules of ``spec.source.files``, with the messages for users who break them."""

FEED_RULES: tuple[tuple[str, str], ...] = (
    (
        (
            "self.all(now, !oldSelf.exists(was, was.topic == now.topic && "
            "(has(was.process) && was.process == 'External') != "
            "(has(now.process) && now.process == 'External')))"
        ),
        (
            "process cannot be changed, because files that are numbered for one purpose are "
            "counted for it; give the files another topic"
        ),
    ),
)
