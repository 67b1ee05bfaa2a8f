"""What stands where an index would, if there is none: of a node, a link, a row, a predicate, whatever a kernel counts
from 0."""

NONE = -1
