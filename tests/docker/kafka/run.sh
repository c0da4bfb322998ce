#!/usr/bin/env bash
# KAFKA_SOME_SETTING=x becomes some.setting=x, as in the official image; then format once and serve.
set -euo pipefail
properties=/tmp/server.properties
: > "$properties"
while IFS='=' read -r name value; do
    case "$name" in KAFKA_HEAP_OPTS | KAFKA_OPTS | KAFKA_JVM_*) continue ;; esac
    key=${name#KAFKA_}
    key=${key//___/-}
    key=${key//__/+}
    key=${key//_/.}
    key=${key//+/_}
    printf '%s=%s\n' "${key,,}" "$value" >> "$properties"
done < <(env | grep '^KAFKA_')
logs=$(sed -n 's/^log\.dirs=//p' "$properties")
java=/opt/java/bin/java
if [ ! -f "$logs/meta.properties" ]; then
    "$java" -Xmx128m -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format \
        --cluster-id "${CLUSTER_ID:-4L6g3nShT-eMCtK--X86sw}" --config "$properties"
fi
# shellcheck disable=SC2086 # several options in one variable
exec "$java" ${KAFKA_HEAP_OPTS:--Xmx512m} -XX:TieredStopAtLevel=1 \
    -cp '/opt/kafka/libs/*' kafka.Kafka "$properties"
