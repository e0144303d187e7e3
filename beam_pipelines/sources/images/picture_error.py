"""The error of an image, in a module that imports no decoder."""


class PictureError(ValueError):
    """Bytes that are no image, or none that may be decoded.

    Attributes:
      found: what was found and expected.
      cure: what to do with a file; empty if ``found`` says it.
    """

    def __init__(self, found: str, cure: str = "") -> None:
        super().__init__(f"{found}. {cure}" if cure else found)
        self.found = found
        self.cure = cure
