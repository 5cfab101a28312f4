#!/usr/bin/env node
// Checks the Node version before anything that an old one cannot read is loaded.
var major = Number(process.versions.node.split(".")[0]);
if (major < 24) {
  console.error(
    "tertulia needs Node 24 or newer, and this is " +
      process.versions.node +
      ": install Node 24 (https://nodejs.org), or run `npx -p node@24 -p tertulia tertulia`.",
  );
  process.exitCode = 3;
} else {
  import("../dist/cli/main.js");
}
