# A misbehaving MCP server in shell, for tests. Run as `sh hostile-server.sh MODE`. Its tool `call` misbehaves, too.
#
# in the list of tools:
#   chained        a schema with a chain of 3 500 `$ref`
#   doubling       a schema with 40 definitions, each of which refers to the previous one twice
#   schemas        200 tools with schemas of 200 KiB
#   pages          a list of tools without an end
#   deep           a list that is nested 10 000 levels deep
#   nested         a tool with a schema that is nested 2 000 levels deep
#   patterns       a schema with regular expressions that take long to match by backtracking
# unasked, after the handshake:
#   notifications  10 000 log messages
#   changes        10 000 notifications of changed tools
#   pings          10 000 pings, whose answers it does not read for a while
#   unasked        10 000 answers that no request waits for
# in answers to calls:
#   zeros          7 000 000 zeros
#   text           15 000 000 characters
#   long           a line of 40 000 000 characters
#   drip           an answer that never ends
#   lines          empty lines without an end
mode=$1
result() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
tools() { result "{\"tools\":[{\"name\":\"call\",\"inputSchema\":$1}]$2}"; }
repeat() { awk -v n="$1" -v text="$2" 'BEGIN { for (i = 0; i < n; i++) print text }'; }
fill() { head -c "$1" /dev/zero | tr '\0' x; }
definitions() {
  awk -v n="$1" -v form="$2" 'BEGIN {
    printf "{\"type\":\"object\",\"$ref\":\"#/$defs/d%d\",\"$defs\":{\"d0\":{\"required\":[\"a\"]}", n - 1
    for (i = 1; i < n; i++) {
      ref = sprintf("{\"$ref\":\"#/$defs/d%d\"}", i - 1)
      printf ",\"d%d\":%s", i, form == "anyOf" ? "{\"anyOf\":[" ref "," ref "]}" : ref
    }
    print "}}"
  }'
}
# 40 tools of 200 KiB on each of 5 pages.
page() {
  awk -v id="$id" -v page="$1" 'BEGIN {
    for (i = 0; i < 4000; i++) schema = schema sprintf("%s\"property%d\":{\"type\":\"string\",\"maxLength\":%d}", i ? "," : "", i, i)
    printf "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"tools\":[", id
    for (i = 0; i < 40; i++) printf "%s{\"name\":\"t%d_%d\",\"inputSchema\":{\"type\":\"object\",\"properties\":{%s}}}", i ? "," : "", page, i, schema
    printf "]%s}}\n", page < 4 ? ",\"nextCursor\":\"" page + 1 "\"" : ""
  }'
}
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$mode:$line" in
    *'"method":"initialize"'*) result '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"hostile","version":"1"}}' ;;
    notifications:*'"method":"notifications/initialized"'*) repeat 10000 '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}' ;;
    changes:*'"method":"notifications/initialized"'*) repeat 10000 '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}' ;;
    pings:*'"method":"notifications/initialized"'*) repeat 10000 '{"jsonrpc":"2.0","id":"p","method":"ping"}' ;;
    unasked:*'"method":"notifications/initialized"'*) repeat 10000 '{"jsonrpc":"2.0","id":123456,"result":{"content":[{"type":"text","text":"unasked"}]}}' ;;
    chained:*'"method":"tools/list"'*) tools "$(definitions 3500)" ;;
    doubling:*'"method":"tools/list"'*) tools "$(definitions 40 anyOf)" ;;
    patterns:*'"method":"tools/list"'*) tools '{"type":"object","patternProperties":{"^(a+)+$":{"type":"string","pattern":"^(([a-z])+.)+[A-Z]([a-z])+$"}}}' ;;
    pages:*'"method":"tools/list"'*) tools '{"type":"object"}' ',"nextCursor":"more"' ;;
    deep:*'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":%s\n' "$id" "$(head -c 10000 /dev/zero | tr '\0' '[')" ;;
    nested:*'"method":"tools/list"'*) tools "{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"string\"},\"a\":$(repeat 2000 '{"items":')true$(repeat 2000 '}')}}" | tr -d '\n'; echo ;;
    schemas:*'"method":"tools/list"'*) page "$(printf %s "$line" | sed -n 's/.*"cursor":"\([0-9]*\)".*/\1/p')" ;;
    *'"method":"tools/list"'*) tools '{"type":"object"}' ;;
    zeros:*'"method":"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"a":[%s0]}}}\n' "$id" "$(fill 7000000 | sed 's/x/0,/g')" ;;
    text:*'"method":"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$(fill 15000000)" ;;
    long:*'"method":"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$(fill 40000000)" ;;
    drip:*'"method":"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[' "$id"; while sleep 1; do printf ' '; done ;;
    lines:*'"method":"tools/call"'*) yes '' ;;
    *'"method":"tools/call"'*) result '{"content":[{"type":"text","text":"called"}]}' ;;
  esac
done
