"""CEL rules of ``spec.compact``, with the messages for users who break them."""

COMPACT_RULES: tuple[tuple[str, str], ...] = (
    (
        (
            "!has(self.below) || !has(self.target)"
            " || !isQuantity(string(self.below)) || !isQuantity(string(self.target))"
            " || quantity(string(self.below)).compareTo(quantity(string(self.target))) <= 0"
        ),
        "below must not exceed target",
    ),
)
