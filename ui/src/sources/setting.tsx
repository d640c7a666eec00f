// One setting of a source: a field that is sent by itself, with the monitor's error next to it.
import { useEffect, useId, useState, type ReactNode } from "react";
import { setSource } from "../api/client";
import type { Source, ProbeSetting } from "../api/types";
import { sentence } from "../words/empty";
import { complaint } from "../words/source";

/** Sends settings of a source, one at a time, and keeps the last error. */
export function useSetting(source: Source, changed: () => void): { error: string | null; busy: boolean; send: (make: () => ProbeSetting) => Promise<void> } {
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const send = async (make: () => ProbeSetting) => {
    setBusy(true);
    try {
      await setSource(source.name, make());
      setError(null);
      changed();
    } catch (e) {
      setError(sentence(complaint(e instanceof Error ? e.message : String(e), source.name)));
    } finally {
      setBusy(false);
    }
  };
  return { error, busy, send };
}

interface Field {
  source: Source;
  changed: () => void;
  label: string;
  hint: ReactNode;
}

interface TextProps extends Field {
  /** The current value, as it would be typed. */
  value: string;
  placeholder: string;
  /** The setting for the typed text; throws an Error with the problem. */
  setting: (text: string) => ProbeSetting;
}

export function TextSetting({ source, changed, label, hint, value, placeholder, setting }: TextProps) {
  const id = useId();
  const { error, busy, send } = useSetting(source, changed);
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <form
      className="setting"
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        void send(() => setting(text));
      }}
    >
      <label htmlFor={id}>{label}</label>
      <div className="row">
        <input
          id={id}
          className="text-input mono"
          value={text}
          onChange={(e) => setText(e.target.value)}
          placeholder={placeholder}
          spellCheck={false}
          autoComplete="off"
          aria-invalid={error !== null}
          aria-describedby={`${id}-hint ${id}-error`}
        />
        {/* Never disabled: the keyboard would lose its place. */}
        <button type="submit" className="text-button" aria-busy={busy} aria-label={`Set: ${label}`}>
          Set
        </button>
      </div>
      <p className="note" id={`${id}-hint`}>
        {hint}
      </p>
      <p className="setting-error" id={`${id}-error`} role="alert">
        {error}
      </p>
    </form>
  );
}

interface ChoiceProps extends Field {
  value: string;
  choices: string[];
  setting: (choice: string) => ProbeSetting;
}

export function ChoiceSetting({ source, changed, label, hint, value, choices, setting }: ChoiceProps) {
  const id = useId();
  const { error, busy, send } = useSetting(source, changed);
  return (
    <div className="setting">
      <label htmlFor={id}>{label}</label>
      <div className="row">
        <select id={id} value={value} onChange={(e) => void send(() => setting(e.target.value))} aria-invalid={error !== null} aria-busy={busy} aria-describedby={`${id}-hint ${id}-error`}>
          {choices.map((c) => (
            <option key={c}>{c}</option>
          ))}
        </select>
      </div>
      <div className="note" id={`${id}-hint`}>
        {hint}
      </div>
      <p className="setting-error" id={`${id}-error`} role="alert">
        {error}
      </p>
    </div>
  );
}
