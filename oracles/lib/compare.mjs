// Compares the outcome of a case on node with the one on execbox.
import { equal, toScriptResult } from './values.mjs';

// The aspects in which the two differ: `[{ aspect, node, execbox }]`. Aspects are `outcome` (one failed, the other did
// not), `result`, `logs`, `name`, `message`, `line` and, if asked for, `column`.
export function differences(each, contract, node, execbox, { column = false } = {}) {
  const found = [];
  const differ = (aspect, node, execbox) => found.push({ aspect, node, execbox });
  if (node.noDefault && contract === 'module') {
    if (execbox.status !== 'link_error') differ('outcome', 'no default export', show(execbox));
    return found;
  }
  const expected = contract === 'script' && node.ok ? toScriptResult(node.value) : undefined;
  // Class instances, functions and symbols do not cross in either contract.
  const refused = expected ? expected.refused : node.ok && /"\$refused":/.test(JSON.stringify(node.value));
  const fails = !node.ok || refused;
  if (execbox.ok === Boolean(fails)) {
    differ('outcome', show(node), show(execbox));
    return found;
  }
  if (refused) {
    const status = contract === 'script' ? execbox.status : execbox.error.name;
    if (!/^serialization_?error$/i.test(status)) differ('outcome', 'a value that cannot cross', show(execbox));
    return found;
  }
  if (node.ok) {
    const [left, right] = contract === 'script' ? [expected, execbox.result] : [node.value, execbox.value];
    if (!equal(left, right)) differ('result', ...apart(left, right));
  } else {
    const [left, right] = [node.error, execbox.error];
    if (['internal_error', 'memory', 'memory_limit', 'timeout', 'terminated'].includes(execbox.status)) {
      differ('outcome', show(node), show(execbox));
      return found;
    }
    if (left.name !== undefined && left.name !== right.name) differ('name', left.name, right.name);
    if (each.outcome) return found;
    if (each.message && left.message !== right.message) differ('message', left.message, right.message);
    const show = ({ file, line, column }) => (line === undefined ? 'nowhere' : `${file === 'case.js' ? '' : `${file}:`}${line}:${column}`);
    if (left.line !== right.line || left.file !== right.file) differ('line', show(left), show(right));
    else if (column && left.column !== undefined && left.column !== right.column) differ('column', show(left), show(right));
  }
  if (each.outcome) return found;
  if (contract === 'script') {
    const same = node.lines.length === execbox.lines.length &&
      node.lines.every((line, index) => line.includes('\0any') || line === execbox.lines[index]);
    if (!same) differ('logs', ...apart(node.lines, execbox.lines));
  } else if (!equal(node.logs, execbox.logs)) {
    differ('logs', ...apart(node.logs, execbox.logs));
  }
  return found;
}

function show(outcome) {
  if (outcome.ok) return `result ${JSON.stringify(outcome.value ?? outcome.result?.value)}`;
  const { name, message, line, column } = outcome.error;
  return `${outcome.status ?? 'error'} at ${line}:${column}: ${name}: ${String(message).split('\n')[0]}`;
}

// The first place at which two values differ, with what is there.
function apart(left, right, path = '') {
  const both = [left, right].every((value) => typeof value === 'object' && value !== null);
  if (both && Array.isArray(left) === Array.isArray(right)) {
    for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
      if (!equal(left[key], right[key])) return apart(left[key], right[key], `${path}.${key}`);
    }
    return [left, right].map((value) => `${path || 'value'} has the keys ${Object.keys(value)}`);
  }
  return [left, right].map((value) => `${path || 'value'} is ${JSON.stringify(value)}`);
}
