import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// TEESCOPE_URL is the monitor that `npm run dev` shows.
const monitor = process.env["TEESCOPE_URL"] ?? "http://127.0.0.1:9780";

export default defineConfig({
  base: "./",
  plugins: [react()],
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
