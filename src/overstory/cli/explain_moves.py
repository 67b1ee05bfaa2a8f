"""What ``explain`` says of clients that move: who, what that saves, which capacities bind, and what stopping costs."""

from overstory.cli.words import Names, many, percents
from overstory.model.plan import Header

BAR = 40  # characters of the longest bar


def moves_in_words(header: Header, names: Names) -> list[str]:
    told = header.attaching
    if not told:
        return []
    lines: list[str] = []
    if told.get("moves"):
        total = int(told["moves"][-1])
        lines.append(f"{many(total, 'client')} move; by the planner's estimate those that save most are")
        rows = zip(told["clients"], told["from"], told["to"], told["saved"], strict=True)
        lines += [
            f"  {names.client(int(client))}: {names.broker(int(source))} → {names.broker(int(target))}, saves "
            f"{percents(saved)} of the cost"
            for client, source, target, saved in rows
        ]
        lines.append("cost after so many moves, where that before them is 100 %:")
        width = len(f"{total:,}")
        lines += [
            f"  {int(count):>{width},} {cost:>7.1%} {'█' * round(BAR * min(cost, 1.0))}"
            for count, cost in zip(told["moves"], told["cost"], strict=True)
        ]
    else:
        lines.append("no client moves")
    full = [names.broker(int(broker)) for broker in told.get("full", [])]
    if full:
        more = f" and {len(full) - 5:,} more" if len(full) > 5 else ""
        lines.append(f"capacity binds at {', '.join(full[:5])}{more}")
    return lines
