// Tells of each file what the platform's decoder reads of it, at once and as it comes in: its digest and length.
const { createHash } = require("crypto");
const { createReadStream, readFileSync } = require("fs");
const { createGunzip, gunzipSync } = require("zlib");

async function main(names) {
  for (const name of names) {
    const whole = gunzipSync(readFileSync(name));
    const parts = [];
    for await (const part of createReadStream(name, { highWaterMark: 1000 }).pipe(createGunzip())) parts.push(part);
    if (!whole.equals(Buffer.concat(parts))) throw new Error(`${name} reads otherwise as it comes in`);
    console.log(createHash("sha256").update(whole).digest("hex"), whole.length);
  }
}

main(process.argv.slice(2));
