#!/bin/sh
# A command that fails twice and then gets through, as networks do. Run it with:
#   perdure run --backoff 500ms -- sh examples/flaky.sh
echo "attempt $PERDURE_ATTEMPT: fetching the report"
sleep 0.3
if [ "$PERDURE_ATTEMPT" -lt 3 ]; then
  echo "connection reset by peer" >&2
  exit 75
fi
echo "total: 42" > "$PERDURE_OUTPUT_DIR/artifacts/report.txt"
echo "got it"
