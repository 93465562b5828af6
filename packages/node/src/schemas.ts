/** Schemas of tools: JSON Schemas, and schemas of libraries that follow Standard Schema (Zod, Valibot, ArkType and others). */

import { dirname } from "node:path";

import { messageOf } from "./errors.js";

/** A JSON Schema. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** A schema of a library that follows Standard Schema, version 1. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** What the validation of a `StandardSchema` gives: a value, or issues. */
export type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<Issue> };

/** What is wrong with a value, and where. */
export interface Issue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

/** A schema of a tool. */
export type Schema = StandardSchema<any, any> | JsonSchema;

/** What a schema reads. For a JSON Schema, it is not known. */
export type InputOf<S> = S extends StandardSchema<any, any> ? NonNullable<S["~standard"]["types"]>["input"] : any;

/** What a schema gives. For a JSON Schema, it is not known. */
export type OutputOf<S> = S extends StandardSchema<any, any> ? NonNullable<S["~standard"]["types"]>["output"] : any;

/** Whether a program passes values to the schema, or gets them from it. @internal */
export type Direction = "input" | "output";

/** Gives a schema of a library that cannot say it itself its JSON Schema, as Standard JSON Schema has it. */
export function withJsonSchema<S extends StandardSchema<any, any>>(schema: S, jsonSchema: JsonSchema): S {
  const standard = { ...schema["~standard"], jsonSchema: { input: () => jsonSchema, output: () => jsonSchema } };
  return { "~standard": standard } as unknown as S;
}

/** Whether it is a schema of a library. @internal */
export function isStandard(schema: unknown): schema is StandardSchema<any, any> {
  return schema !== null && ["object", "function"].includes(typeof schema) && "~standard" in (schema as object);
}

const known = new WeakMap<object, Partial<Record<Direction, JsonSchema>>>();

/** The JSON Schema of a schema. Fails with a `TypeError` if there is none. @internal */
export async function jsonSchemaOf(schema: Schema, direction: Direction): Promise<JsonSchema> {
  if (!isStandard(schema)) return schema;
  const read = known.get(schema) ?? {};
  known.set(schema, read);
  const found = read[direction] ?? (await convert(schema, direction));
  read[direction] = found;
  return found;
}

async function convert(schema: StandardSchema, direction: Direction): Promise<JsonSchema> {
  const { vendor, jsonSchema } = schema["~standard"] as any;
  try {
    // https://standardschema.dev/json-schema
    if (jsonSchema) return jsonSchema[direction]({ target: "draft-2020-12" });
    if (vendor === "valibot") {
      const { toJsonSchema } = await optional("@valibot/to-json-schema");
      return toJsonSchema(schema, { typeMode: direction });
    }
    if (vendor === "zod" && "_zod" in schema)
      return (await optional("zod/v4/core")).toJSONSchema(schema, { io: direction });
    if (vendor === "zod") {
      const { zodToJsonSchema } = await optional("zod-to-json-schema");
      return zodToJsonSchema(schema, { target: "jsonSchema2019-09", pipeStrategy: direction });
    }
  } catch (error) {
    throw new TypeError(`the schema of ${vendor} has no JSON Schema: ${messageOf(error)}; ${REMEDY}`);
  }
  throw new TypeError(`the schema of ${vendor} has no JSON Schema; ${REMEDY}`);
}

const REMEDY = "pass withJsonSchema(schema, jsonSchema)";

/** A library of the application. */
async function optional(name: string): Promise<any> {
  try {
    return require(require.resolve(name, { paths: [dirname(process.argv[1] ?? __dirname), __dirname] }));
  } catch {
    throw new Error(`install ${name}`);
  }
}

/** The issues of a validation, in one line. @internal */
export function describe(issues: ReadonlyArray<Issue>, root: string): string {
  const lines = issues.slice(0, 10).map(({ message, path }) => {
    const keys = (path ?? []).map((part) => (typeof part === "object" ? part.key : part));
    return `${root}${keys.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("")}: ${message}`;
  });
  return lines.join("; ") + (issues.length > lines.length ? "; …" : "");
}
