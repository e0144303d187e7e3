"""Budgets: how many rows may be wrong."""

from __future__ import annotations

import decimal
import fractions
import math


def allowed_rows(budget: float, total: int) -> int:
    """Returns how many of ``total`` rows a budget allows.

    A share is computed exactly from its decimals, and rounded down.
    """
    return (
        budget if isinstance(budget, int) else math.floor(fractions.Fraction(repr(budget)) * total)
    )


def show_budget(budget: float) -> str:
    """Returns a budget as a recipe writes it: 100 or 0.1%."""
    if isinstance(budget, int):
        return str(budget)
    return f"{(decimal.Decimal(repr(budget)) * 100).normalize():f}%"
