/** The nonce that the server put into the page, for the style elements that
 * libraries make. The attribute reads as "" once parsed; the property does not. */
export function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
}
