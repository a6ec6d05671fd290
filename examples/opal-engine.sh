#!/bin/sh
# An engine for OPAL's door: what `opal.engine` names. It finds the prompt, the metadata and the client's file in its
# environment, and leaves its outputs in artifacts/. This one does what OPAL's own tests ask for: a prompt that begins with
# SLEEP_TEST_20s takes 20 seconds, whatever follows. Any other prompt is answered at once.
#   PERDURE_OPAL_ENGINE='["sh", "/path/to/opal-engine.sh"]' perdure up
set -eu
prompt=$(cat "$OPAL_PROMPT_FILE")
seconds=$(printf '%s\n' "$prompt" | sed -n '1s/^SLEEP_TEST_\([0-9.]\{1,10\}\)s.*/\1/p')

echo "attempt $PERDURE_ATTEMPT of $OPAL_JOB_ID"
[ -z "$seconds" ] || sleep "$seconds"

printf '%s\n' "$prompt" > "$PERDURE_OUTPUT_DIR/artifacts/prompt.txt"
if [ -n "${OPAL_INPUT_FILE:-}" ]; then
  cp "$OPAL_INPUT_FILE" "$PERDURE_OUTPUT_DIR/artifacts/"
fi
printf '{"job_id": "%s", "attempt": %s, "metadata": %s}\n' "$OPAL_JOB_ID" "$PERDURE_ATTEMPT" "$OPAL_METADATA" \
  > "$PERDURE_OUTPUT_DIR/artifacts/report.json"
