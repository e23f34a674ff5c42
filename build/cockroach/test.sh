#!/usr/bin/env bash
# Runs the tests that depend on the store on the CockroachDB of
# GREENROOM_TEST_COCKROACH_URL: bounded, without the race detector, which would see nothing
# that it does not see on PostgreSQL. GREENROOM_KILL_ROUNDS makes it longer.
set -euo pipefail
: "${GREENROOM_TEST_COCKROACH_URL:?is not set; start a node and set it, as in CONTRIBUTING.md}"
build/postgres/setup.sh # whose psql makes the databases
run() { go test -count=1 -vet=off -timeout 40m "$@"; }

# The contract runs on PostgreSQL as well, since every statement is compared on both.
run -run 'Test(Contract|MigrationAtOnceFaults)$' ./store/sqlstore
run -skip '/postgresql' -run 'Test(Model|Damage|Lap|StateIsReadableInSQL|RetriesAreCounted|SessionsEndWithTheLeaseOfTheirHost|RenewalThatArrivesInPart|WaitingForARowEndsTheSessionsOfDeadHosts|FrozenTurnHoldsItsRowForALease|OneConnectionOfALivingHostDies|SessionsOfAnotherClusterAreLeftAlone)$' ./store/sqlstore
run -skip '/(embedded|postgresql)|//(embedded|postgresql)' ./internal/guarantees
run -run 'TestOnStores/cockroachdb' ./scheduler/reminder
run -run 'TestRemindersFire/cockroachdb|TestLinearizableOverCutConnections/cockroachdb|TestKeyRotation/cockroachdb|TestRestoredDatabase/cockroachdb' ./internal/node
export GREENROOM_KILL_ROUNDS=${GREENROOM_KILL_ROUNDS:-4}
run -run 'TestKillCockroachDB|TestFrozenHostsCockroachDB|TestKillReminders/cockroachdb' ./internal/crash
# Three servers: each fault once, with reminders, forwarded calls, drains and kills; then with
# transactions over several actors.
GREENROOM_KILL_ROUNDS=9 run -run 'TestThreeHosts/cockroachdb_servers$' ./internal/cluster
GREENROOM_KILL_ROUNDS=8 run -run 'TestTransfers/cockroachdb$' ./internal/cluster
