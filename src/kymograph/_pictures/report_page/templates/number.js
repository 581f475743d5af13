// Numbers as kymograph/_rounding.py writes them.
const raised = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const rounded = Number(value.toPrecision(digits)), size = Math.abs(rounded);
  if (rounded === 0) return "0";
  if (size >= 1e-4 && size < 1e6) {
    const text = size >= 1e3 ? rounded.toLocaleString("en-US", { maximumFractionDigits: 12 }) : String(rounded);
    return text.replace("-", "−");
  }
  const [mantissa, power] = rounded.toExponential().split("e");
  const exponent = String(Number(power)).split("").map((character) => raised[character]).join("");
  const bare = mantissa.replace("-", "") === "1";
  return (bare ? mantissa.replace("1", "") + "10" + exponent : mantissa + "×10" + exponent).replace("-", "−");
}
