// Light or dark: the reader's choice in this browser, or the system's preference. It is not part of
// the address: a shared link must not change the other reader's page.
import { useSyncExternalStore } from "react";
import { flushSync } from "react-dom";

export const themes = ["auto", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

const key = "teescope-theme";
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let chosen = stored();

function stored(): Theme {
  try {
    return themes.find((t) => t === window.localStorage.getItem(key)) ?? "auto";
  } catch {
    return "auto"; // the browser stores nothing for this page
  }
}

function subscribe(listener: () => void): () => void {
  const onStorage = (e: StorageEvent) => {
    if (e.key !== key) return;
    chosen = stored();
    listener();
  };
  listeners.add(listener);
  prefersDark.addEventListener("change", listener);
  window.addEventListener("storage", onStorage); // another tab chose
  return () => {
    listeners.delete(listener);
    prefersDark.removeEventListener("change", listener);
    window.removeEventListener("storage", onStorage);
  };
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => chosen);
}

export function setTheme(theme: Theme): void {
  chosen = theme;
  try {
    window.localStorage.setItem(key, theme);
  } catch {
    // It lasts until the page is closed.
  }
  for (const l of listeners) l();
}

/** Paper is light. */
let printing = false;
for (const event of ["beforeprint", "afterprint"] as const) {
  window.addEventListener(event, () => {
    printing = event === "beforeprint";
    flushSync(() => listeners.forEach((l) => l())); // the picture of the page is taken right after
  });
}

/** The present colours of the page. */
export function scheme(): "light" | "dark" {
  if (printing) return "light";
  return chosen === "auto" ? (prefersDark.matches ? "dark" : "light") : chosen;
}

export function useScheme(): "light" | "dark" {
  return useSyncExternalStore(subscribe, scheme);
}
