# An MCP server in shell, for tests. Run as `sh fake-server.sh [NAME]`.
#
# The server sends the value of TOKEN wherever it can: in instructions, descriptions, schemas, results, errors and on
# standard error. `hello` answers with NAME, `env` with the whole environment, `fail` with a failure, `refuse` with an
# error, `slow` never, and `die` ends the server. With NAME `silent` the server answers nothing, with `rude` it rejects the
# handshake.
echo "started with $TOKEN" >&2
text() { printf '{"content":[{"type":"text","text":"%s"}]%s}' "$1" "$2"; }
tool() { printf '{"name":"%s","description":"%s with %s","inputSchema":{"type":"object","description":"%s","properties":{"%s":{}}}}' "$1" "$1" "$TOKEN" "$TOKEN" "key_$TOKEN"; }
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  result() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  error() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"%s"}}\n' "$id" "$1" "$2"; }
  case "$1:$line" in
    silent:*) ;;
    *'"method":"server/discover"'*) error -32601 "unknown method" ;;
    rude:*'"method":"initialize"'*) error -32000 "not with $TOKEN" ;;
    *'"method":"initialize"'*) result '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"},"instructions":"Use '"$TOKEN"'"}' ;;
    *'"method":"tools/list"'*) result '{"tools":['"$(tool hello),$(tool env),$(tool fail),$(tool refuse),$(tool slow),$(tool die)"',{"name":"broken","inputSchema":{"type":"'"$TOKEN"'"}}]}' ;;
    *'"name":"hello"'*) result "$(text "hello from $1")" ;;
    *'"name":"env"'*) result "$(text "$(env | tr '\n"\\' '   ')" ',"structuredContent":{"'"$TOKEN"'":["'"$TOKEN"'"]}')" ;;
    *'"name":"fail"'*) result "$(text "failed with $TOKEN" ',"isError":true')" ;;
    *'"name":"refuse"'*) error -32602 "refused with $TOKEN" ;;
    *'"name":"slow"'*) ;;
    *'"name":"die"'*) exit 1 ;;
  esac
done
