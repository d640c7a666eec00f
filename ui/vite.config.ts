import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

// TEESCOPE_URL is the monitor that `npm run dev` shows.
const monitor = process.env["TEESCOPE_URL"] ?? "http://127.0.0.1:9780";

// Assets are compressed once, here: the binary holds them so, and the server sends them so.
const packed: Plugin = {
  name: "packed",
  writeBundle({ dir }, bundle) {
    for (const name of Object.keys(bundle).filter((n) => n.startsWith("assets/"))) {
      const file = join(dir ?? "dist", name);
      writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
      rmSync(file);
    }
  },
};

export default defineConfig({
  base: "./",
  plugins: [react(), packed],
  // The server replaces this token by a fresh nonce in every answer.
  html: { cspNonce: "__CSP_NONCE__" },
  build: {
    target: "es2023",
    // An inlined asset would be a data: URL, which the security policy refuses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
  },
  server: { proxy: { "/api": monitor, "/metrics": monitor } },
  // A shared machine can be slow.
  test: { include: ["src/**/*.test.ts"], testTimeout: 480_000, hookTimeout: 480_000 },
});
