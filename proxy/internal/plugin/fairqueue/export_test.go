package fairqueue

// HandOverAfter is how long a caller waits before units are handed over to it.
const HandOverAfter = handOverAfter
