//! What private inference cannot do, why, and what to use instead.

/// Why an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) why: &'static str,
    pub(crate) instead: &'static str,
}

/// The refusal of an operation on values that depend on the image.
pub(crate) fn refusal(operation: &str) -> Refusal {
    let (why, instead) = match operation {
        "Gelu" | "Sigmoid" | "Tanh" | "Erf" | "Exp" | "Log" | "Elu" | "Selu" | "Celu" | "Softplus"
        | "Softsign" | "Mish" | "Swish" | "Sin" | "Cos" | "Atan" => (
            "it is a smooth curve, and the parties compare and add but compute no curves",
            "train with ReLU, ReLU6, a clip or a leaky ReLU",
        ),
        "HardSwish" => (
            "it multiplies a value with a function of itself, and both are secret",
            "train with ReLU6 or ReLU",
        ),
        "Softmax" | "LogSoftmax" | "Hardmax" => (
            "it divides by a secret, and only at the end of a network can it be left to the client",
            "attention and gates have no substitute here; a convolutional network with ReLUs has none of them",
        ),
        "LayerNormalization"
        | "GroupNormalization"
        | "InstanceNormalization"
        | "RMSNormalization"
        | "MeanVarianceNormalization"
        | "LpNormalization"
        | "LRN" => (
            "it divides by a deviation of secret values",
            "train with batch normalization, which becomes part of the weights",
        ),
        "Resize" | "Upsample" | "GridSample" | "RoiAlign" | "DepthToSpace" | "SpaceToDepth"
        | "ConvTranspose" => (
            "it makes maps larger or moves pixels, which no step of a frozen model does",
            "resize images before they are given to the client; classification needs no other resizing",
        ),
        "Attention" | "MultiHeadAttention" | "Einsum" => {
            ("it multiplies secret values with each other", "a convolutional network with ReLUs")
        }
        "LSTM" | "GRU" | "RNN" | "Loop" | "Scan" | "If" => (
            "what runs would depend on secret values, or runs a number of times",
            "a network without loops and branches of control",
        ),
        "QLinearConv"
        | "QLinearMatMul"
        | "ConvInteger"
        | "MatMulInteger"
        | "QuantizeLinear"
        | "DequantizeLinear"
        | "DynamicQuantizeLinear" => (
            "its integers are others than those of the protocol",
            "export the network before it is quantized; freezing quantizes it",
        ),
        "ArgMax" | "TopK" | "NonMaxSuppression" | "Max" | "Min" | "ReduceMax" | "Equal" | "Greater"
        | "Less" | "Where" | "Sign" => (
            "it compares secret values in a way that has no circuit here",
            "let the network end with its logits, and use ReLU and max pooling inside",
        ),
        "Mul" | "MatMul" | "Pow" | "Div" | "Sqrt" | "Reciprocal" => (
            "it multiplies or divides secret values by each other",
            "blocks without gates: no squeeze-and-excite, no attention, no swish",
        ),
        _ => (
            "no step of a frozen model does this",
            "convolutions, batch norms, ReLUs, poolings, sums and fully connected layers",
        ),
    };
    Refusal { why, instead }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_what_to_use() {
        for operation in
            ["Gelu", "HardSwish", "Softmax", "LayerNormalization", "Resize", "LSTM", "QLinearConv", "?"]
        {
            let Refusal { why, instead } = refusal(operation);
            assert!(!why.is_empty() && !instead.is_empty());
        }
        assert!(refusal("GroupNormalization").instead.contains("batch normalization"));
    }
}
