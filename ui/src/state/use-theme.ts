// Light or dark: what the URL says, else what the system prefers.
import { useSyncExternalStore } from "react";
import type { Theme } from "./place";

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

export function useScheme(theme: Theme): "light" | "dark" {
  const dark = useSyncExternalStore(
    (listener) => {
      prefersDark.addEventListener("change", listener);
      return () => prefersDark.removeEventListener("change", listener);
    },
    () => prefersDark.matches,
  );
  return theme === "auto" ? (dark ? "dark" : "light") : theme;
}
