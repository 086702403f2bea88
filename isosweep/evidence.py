"""The least that a verdict on saturation takes; a plan with less can never come to one."""

# Fewer points than three cannot show growth and its end.
MIN_BUDGETS = 3
MIN_GENERATIONS = 3
# One seed has no spread by which an n could be told from the best.
MIN_SEEDS = 2
