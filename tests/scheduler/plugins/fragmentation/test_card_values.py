"""Values of free shares of a card."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.scheduler.plugins.fragmentation.card_values import WHOLE, card_values, share_prices


def test_without_requests_a_share_is_worth_itself() -> None:
    assert card_values({})[40] == pytest.approx(0.4)


def test_a_share_that_leaves_a_useless_rest_costs_a_whole_card() -> None:
    values = card_values({81: 1000, 50: 10})
    assert values[81] == pytest.approx(1.0)
    assert values[19] == 0.0


def test_shares_that_fill_a_card_together_cost_a_card_together() -> None:
    shares = np.array([35, 65])
    prices = share_prices(shares, np.array([100.0, 100.0]))
    assert prices.sum() == pytest.approx(1.0)


def test_the_scarce_partner_of_a_frequent_share_is_free() -> None:
    # A thousand pods of 70 percent leave a thousand rests of 30; ten pods of 30 use only a few of them.
    values = card_values({70: 1000, 30: 10})
    assert values[30] == pytest.approx(0.0)
    assert values[70] == pytest.approx(1.0)


requests = st.dictionaries(st.integers(3, WHOLE), st.integers(1, 1000).map(float), min_size=1, max_size=10)


@given(requests)
def test_a_whole_card_is_worth_one_and_values_never_fall(mix: dict[int, float]) -> None:
    values = card_values(mix)
    assert values[WHOLE] == pytest.approx(1.0)
    assert (np.diff(values) >= -1e-9).all()


@given(requests)
def test_prices_are_a_bound_for_every_division_of_a_card(mix: dict[int, float]) -> None:
    """Feasible dual prices: no set of requests that fits on a card costs more than the card."""
    shares = np.array(sorted(mix))
    prices = share_prices(shares, np.array([mix[share] for share in shares.tolist()]))
    assert (prices >= 0).all()
    assert card_values(mix)[WHOLE] <= 1 + 1e-6
    # The cards that the prices add up to are at least what the requests add up to.
    demand = np.array([mix[share] for share in shares.tolist()])
    assert (prices * demand).sum() >= (shares * demand).sum() / WHOLE - 1e-6
