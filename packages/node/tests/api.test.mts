/** `docs/node-api.md` is what the declarations of the package say. `UPDATE=1` writes it. */

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import ts from "typescript";

import { assert } from "./support.mjs";

const SECTIONS: Record<string, string[]> = {
  Executors: ["Executor", "ExecutorOptions", "Execution", "Server", "Check", "TotalUsage"],
  Options: ["Options", "ScriptOptions", "CodeOptions", "Limits"],
  Tools: [
    "tool",
    "Tools",
    "ToolSet",
    "Tool",
    "ToolDefinition",
    "ToolFunction",
    "Call",
    "Effect",
    "Provider",
    "mcpTools",
    "McpClient",
  ],
  Schemas: ["Schema", "JsonSchema", "StandardSchema", "withJsonSchema", "InputOf", "OutputOf"],
  "Tools for models": ["CodeTool", "CodeToolOptions"],
  Policies: ["Rule", "Question", "Answer"],
  Results: ["Result", "CodeResult", "LogCall", "Usage"],
  Errors: [
    ...["ExecboxError", "ProgramError", "Position", "Frame", "ToolError", "InvalidInputError", "SerializationError"],
    ...["ServiceError", "ServiceEndedError", "ExecutorClosedError", "BinaryNotFoundError"],
  ],
  Events: ["EventType", "Event"],
  Values: ["hostFunction", "HostFunction", "Tagged"],
};

/** The modules for other libraries. */
const ADAPTERS: Record<string, string[]> = {
  "ai-sdk": ["codeTool", "CodeInput", "CodeError", "AnyTools", "AnyToolSet"],
  codemode: [
    "CodemodeExecutor",
    "CodemodeOptions",
    "CodemodeProvider",
    "CodemodeFunctions",
    "CodemodeExecuteOptions",
    "CodemodeResult",
  ],
};

const HEAD = `# Node.js API

Everything that the package \`execbox\` exports, and its modules for other libraries at the end. It is made from the
declarations, whose comments an editor shows, too; [Node.js](node.md) shows how to use it.
`;

const dist = join(dirname(fileURLToPath(import.meta.url)), "../dist");
const index = join(dist, "index.d.ts");
const adapters = Object.keys(ADAPTERS).map((name) => join(dist, `adapters/${name}.d.mts`));
const options = {
  module: ts.ModuleKind.Node16,
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
};
const program = ts.createProgram([index, ...adapters], { ...options, strict: true, types: [], skipLibCheck: false });
const checker = program.getTypeChecker();

/** What a module exports, by name. */
function exportsOf(file: string): Map<string, ts.Symbol> {
  const symbols = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file)!)!);
  const original = (symbol: ts.Symbol) =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  return new Map(symbols.map((symbol) => [symbol.name, original(symbol)]));
}

const exported = exportsOf(index);
const adapted = adapters.map(exportsOf);

test("the declarations can be read by others", () => {
  const messages = ts
    .getPreEmitDiagnostics(program)
    .filter(({ file }) => !file?.fileName.includes("node_modules"))
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
  assert.deepEqual(messages, []);
});

test("the page has all names", () => {
  assert.deepEqual(Object.values(SECTIONS).flat().sort(), [...exported.keys()].sort());
  for (const [index, names] of Object.values(ADAPTERS).entries()) {
    assert.deepEqual([...names].sort(), [...adapted[index]!.keys()].sort());
  }
});

test("the page is what the declarations say", () => {
  const section = (title: string, names: string[], of = exported) =>
    `\n## ${title}\n${names.map((name) => entry(name, of.get(name)!)).join("")}`;
  const parts = [
    ...Object.entries(SECTIONS).map(([title, names]) => section(title, names)),
    ...Object.entries(ADAPTERS).map(([name, names], index) => section(`\`execbox/${name}\``, names, adapted[index])),
  ];
  const page = HEAD + parts.join("");
  const file = join(process.env.EXECBOX_PAGES!, "node-api.md");
  if (process.env.UPDATE) writeFileSync(file, page);
  assert(readFileSync(file, "utf8") === page, "UPDATE=1 writes docs/node-api.md");
});

/** The part of the page about one name. */
function entry(name: string, symbol: ts.Symbol): string {
  const declaration = symbol.declarations![0]!;
  const text = paragraphs(documentation(symbol));
  if (name === "Event") return heading(name) + text + events(declaration as ts.TypeAliasDeclaration);
  if (ts.isFunctionDeclaration(declaration)) return heading(name) + code(declaration.getText()) + text;
  if (ts.isTypeAliasDeclaration(declaration)) {
    const type = checker.getDeclaredTypeOfSymbol(symbol);
    const isResult = name === "Result" || name === "CodeResult";
    return heading(name) + text + (isResult ? table(type.getProperties()) : code(declaration.type.getText()));
  }
  const kind = ts.isClassDeclaration(declaration) ? "class " : "";
  const bases =
    (declaration as ts.ClassDeclaration).heritageClauses?.map((clause) => ` ${clause.getText()}`).join("") ?? "";
  return (
    heading(`${kind}${name}${bases}`) + text + members(declaration as ts.ClassDeclaration | ts.InterfaceDeclaration)
  );
}

/** The members that a class or an interface declares. */
function members(declaration: ts.ClassDeclaration | ts.InterfaceDeclaration): string {
  const visible = [...declaration.members].filter(
    (member) => !ts.getCombinedModifierFlags(member as any) || !isPrivate(member as any),
  );
  const isMethod = (member: ts.Node) =>
    ts.isMethodDeclaration(member) || ts.isMethodSignature(member) || ts.isConstructorDeclaration(member);
  const properties = visible
    .filter((member) => !isMethod(member))
    .map((member) => checker.getSymbolAtLocation(member.name!)!);
  const methods = visible.filter(isMethod).map((member) => {
    const symbol = (member as any).symbol as ts.Symbol;
    const signature = member.getText().replace(/^constructor/, `new ${declaration.name!.text}`);
    return code(signature) + paragraphs(documentation(symbol));
  });
  return (properties.length > 0 ? table(properties) : "") + methods.join("");
}

function isPrivate(member: ts.Declaration): boolean {
  return (ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Private) !== 0;
}

function table(properties: ts.Symbol[]): string {
  const rows = properties.map((property) => {
    const all: any[] = property.declarations!;
    const declaration = all.find((each) => each.type?.getText() !== "never") ?? all[0];
    const isSingle = property.declarations!.length === 1 && declaration.type;
    const type = isSingle ? declaration.type.getText() : union(checker.getTypeOfSymbol(property));
    const what = ts.isMethodSignature(declaration) ? declaration.getText().replace(/;$/, "") : undefined;
    const optional = declaration.questionToken ? "?" : "";
    return `| ${inline(what ?? `${property.name}${optional}: ${type}`)} | ${line(documentation(property))} |\n`;
  });
  return `\n| | |\n|---|---|\n${rows.join("")}`;
}

/** A type whose parts have no order of their own. */
function union(type: ts.Type): string {
  return checker.typeToString(type).split(" | ").sort().join(" | ");
}

function events(union: ts.TypeAliasDeclaration): string {
  const rows = (union.type as ts.UnionTypeNode).types.map((node) => {
    const type = checker.getTypeAtLocation(node);
    const fields = type.getProperties().filter(({ name }) => name !== "type" && name !== "dropped");
    const kind = checker.typeToString(checker.getTypeOfSymbol(type.getProperty("type")!)).replaceAll('"', "");
    const names = fields.map(({ name }) => `\`${name}\``).join(", ");
    return `| \`${kind}\` | ${names} | ${line(documentation(type.symbol))} |\n`;
  });
  const text = "Each has `dropped` if events were dropped before it.";
  return `${paragraphs(text)}\n| \`type\` | fields | |\n|---|---|---|\n${rows.join("")}`;
}

function documentation(symbol: ts.Symbol): string {
  const lines = ts.displayPartsToString(symbol.getDocumentationComment(checker)).trim().split("\n");
  return lines.filter((line, index) => !line || lines.indexOf(line) === index).join("\n"); // of all members of a union
}

function heading(text: string): string {
  return `\n### \`${text}\`\n`;
}

/** A declaration: in the line if it is short. */
function code(declaration: string): string {
  const text = declaration.replace(/^export declare (function )?/, "").replace(/;$/, "");
  const short = text.replace(/\s+/g, " ");
  if (short.length < 116) return `\n\`${short}\`\n`;
  const broken = text.includes("\n")
    ? text
    : text.replace(/, (?=[a-z]\w*\??: )/g, ",\n    ").replace(/^(\w+(?:<.*?>)?\()/, "$1\n    ");
  return `\n\`\`\`text\n${broken.replace(/\/\*\*[\s\S]*?\*\/\n */g, "")}\n\`\`\`\n`;
}

function inline(text: string): string {
  return `\`${line(text)}\``;
}

function line(text: string): string {
  return text.replace(/\s+/g, " ").replaceAll("|", "\\|");
}

/** A comment, wrapped as pages are. */
function paragraphs(text: string): string {
  return text
    .split(/\n\s*\n/)
    .filter(Boolean)
    .map((part) => (part.startsWith("```") ? `\n${part.replace("```js", "```text")}\n` : `\n${wrap(part)}\n`))
    .join("");
}

function wrap(text: string): string {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1)!;
    if (last && last.length + word.length + 1 > 120) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines.join("\n");
}
