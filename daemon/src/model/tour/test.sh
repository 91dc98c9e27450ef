#!/bin/sh
# Checks greet.sh. Usage: test.sh [--slow]; --slow waits a second before each check after the first.
cd "$(dirname "$0")" || exit 2
slow=no
[ "${1:-}" = "--slow" ] && slow=yes
number=0
failed=0

# check EXPECTED [ARGUMENT...]
check() {
    number=$((number + 1))
    [ "$slow" = yes ] && [ "$number" -gt 1 ] && sleep 1
    expected=$1
    shift
    actual=$(sh ./greet.sh "$@" 2>&1)
    if [ "$actual" = "$expected" ]; then
        echo "ok $number - $expected"
    else
        failed=$((failed + 1))
        echo "not ok $number - expected \"$expected\", got \"$actual\""
    fi
}

check "Hello, World!"
check "Hello, Ada!" Ada
check "Hello, Grace Hopper!" "Grace Hopper"
check "Hello, Zoë!" "Zoë"
check "Hello, Linus!" Linus

echo "$((number - failed)) of $number checks passed"
[ "$failed" -eq 0 ]
