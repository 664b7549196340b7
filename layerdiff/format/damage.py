"""How the reader's parts tell what is wrong with a file that they do not know the name of."""


class Damage(Exception):
    """A file is no dump that can be read: what is wrong and what to do."""


class Broken(Damage):
    """Content that breaks the format.

    Args:
        what: The table or text, and the rule that it breaks.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"is damaged: {what}; record again")
