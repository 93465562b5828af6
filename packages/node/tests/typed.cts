/** The code of a user of CommonJS, which is compiled strictly and not run. */

import execbox = require("execbox");

export async function main(): Promise<unknown> {
  const box = new execbox.Executor();
  const { value }: execbox.Result<number> = await box.run<number>("1 + 1");
  await box[Symbol.asyncDispose]();
  return value;
}
