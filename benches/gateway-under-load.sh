#!/bin/sh
# Runs `fieldshadow run` on a workload that a load harness describes in BENCH_* variables: how many devices, registers,
# which ports, which broker. Writes its configuration into the present folder and replaces itself with the gateway.
#
#   BENCH_MODE        ports (one port a device, unit 1), units (unit ids 1..D on one port) or rtu (unit ids 1..D on a line)
#   BENCH_PTY BENCH_BAUD  the line of mode rtu; 11 bits a character: no parity, two stop bits
#   BENCH_HOST BENCH_BASE_PORT BENCH_DEVICES BENCH_REGISTERS BENCH_PERIOD_MS BENCH_TIMEOUT_MS
#   BENCH_MQTT_PORT BENCH_QOS
#   FIELDSHADOW       the binary (default: target/release/fieldshadow beside this script)
#   BENCH_CHANGE      true to publish `change` messages too, as the default configuration does (default false)
#   BENCH_RETAIN      true to retain `state`, as the default configuration does (default false)
#
# The values stand in topic fieldshadow/+/state, under /reported, named r0 … rN.
set -eu
bin=${FIELDSHADOW:-$(dirname "$(readlink -f "$0")")/../target/release/fieldshadow}
period=$BENCH_PERIOD_MS
[ "$period" -gt 0 ] || period=1
mkdir -p devices.d device-profiles/bench state
{
    echo 'profile: bench/stamped'
    echo 'version: 1.0.0'
    echo 'title: registers in a row'
    echo 'verified: false'
    echo "timing: {timeout: ${BENCH_TIMEOUT_MS}ms, retries: 0}"
    echo 'groups:'
    echo '  all:'
    echo '    base: 0'
    echo "    every: ${period}ms"
    echo '    points:'
    r=0
    while [ "$r" -lt "$BENCH_REGISTERS" ]; do
        echo "      r$r: {offset: $r, type: u16}"
        r=$((r + 1))
    done
} > device-profiles/bench/stamped.yaml
{
    echo 'devices:'
    d=0
    while [ "$d" -lt "$BENCH_DEVICES" ]; do
        case $BENCH_MODE in
            ports) port=$((BENCH_BASE_PORT + d)) unit=1 ;;
            units) port=$BENCH_BASE_PORT unit=$((d + 1)) ;;
            rtu) unit=$((d + 1)) ;;
            *) echo "there is no mode $BENCH_MODE" >&2; exit 2 ;;
        esac
        if [ "$BENCH_MODE" = rtu ]; then
            link="serial: $BENCH_PTY, baud: $BENCH_BAUD, data_bits: 8, parity: none, stop_bits: 2"
        else
            link="tcp: \"$BENCH_HOST:$port\""
        fi
        echo "  - {device: d$d, profile: bench/stamped, link: {$link}, unit_id: $unit}"
        d=$((d + 1))
    done
} > devices.d/all.yaml
cat > fieldshadow.yaml <<EOF
gateway: {id: bench, state_dir: state}
profiles: [device-profiles]
devices: devices.d
mqtt: {url: "mqtt://127.0.0.1:$BENCH_MQTT_PORT"}
publish:
  state: {qos: $BENCH_QOS, retain: ${BENCH_RETAIN:-false}}
  change: {enabled: ${BENCH_CHANGE:-false}, qos: 0}
log: {level: warn}
EOF
exec "$bin" run --config fieldshadow.yaml
